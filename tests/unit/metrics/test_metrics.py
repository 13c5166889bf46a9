"""What is told of links as metrics: read back by Prometheus' own parser."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from isthmus.metrics.catalogue import METRICS, MetricKind, MetricScope
from isthmus.metrics.collector import GROUPS_MAX, PARTITIONS_MAX, TOPICS_MAX, label_of
from isthmus.model.lane import Gap, LaneState
from isthmus.model.links.progress import GroupProgress
from isthmus.model.links.transform import RecordFunction, Transform
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.problem import Problem
from isthmus.model.process.receipt import Ending, LeaseTotals, Receipt
from isthmus.model.state import LinkState
from testing.values.standing import OPEN_METRICS, Telling, latency_of, link_at, partition_of, topic_at

HOSTILE = ('a"b', "back\\slash", "line\nfeed", "<img onerror=x>", "\x1b[31m", "\u202egnirts", "\udcff", "{}=,# ", "")


def test_every_metric_of_the_catalogue_is_told_as_it_says() -> None:
    """In both formats, with the kind and the labels of the catalogue, and none besides those of the process."""
    telling = Telling(has_partitions=True)
    group = GroupProgress(group="g", standing="IN_STEP", behind_records=0)
    problem = Problem("away", "wait", "ISTH-UNREACHABLE")
    transform = Transform(python=RecordFunction("rules", "clean"))
    topic = replace(topic_at("orders"), transform=transform)
    link = link_at(topic, groups=[group], latency=latency_of(5.0), problem=problem)
    telling.show(link)
    text = telling.answers.metrics(OPEN_METRICS)[0].decode()
    for families in (list(open_metrics(text)), list(plain(telling.text()))):
        samples = {family.name: family.samples for family in families}
        kinds = {family.name: family.type for family in families}
        for metric in METRICS:
            name = metric.name.removesuffix("_total")
            assert kinds[name] == metric.kind, metric
            assert samples[name], metric
            for sample in samples[name]:
                assert set(sample.labels) - {"le"} == set(metric.labels), metric
        own = {name for name in samples if name.startswith("isthmus_")}
        assert own == {metric.name.removesuffix("_total") for metric in METRICS}


def test_names_follow_the_rules_of_prometheus() -> None:
    """Base units and `_total` where it counts, and every metric of a scope has the same labels first."""
    for metric in METRICS:
        assert metric.name.startswith("isthmus_")
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
        assert "_ms" not in metric.name
        assert metric.help.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {m.labels[:3] for m in METRICS if m.scope is not MetricScope.PROCESS} == {("link", "source", "target")}


def test_numbers_of_a_topic_are_those_of_its_partitions() -> None:
    """Sums of records, bytes and lag, the largest lag, and the state that needs most attention."""
    telling = Telling()
    behind = partition_of("orders", 1, target_end=4, records=4, size_bytes=100)
    telling.show(link_at(topic_at("orders", partition_of("orders", 0), behind)))
    telling.show(link_at(topic_at("orders", partition_of("orders", 0), behind)), after_s=7.0)
    told = {
        name: telling.value(f'isthmus_{name}{{topic="orders"}}')
        for name in (
            "records_replicated_total", "bytes_replicated_total", "replication_lag_records",
            "replication_lag_records_max", "replication_lag_seconds", "mirror_partitions",
        )
    }  # fmt: skip
    assert list(told.values()) == [14, 800, 6, 6, 7.0, 2]
    assert telling.value('isthmus_mirror_state{topic="orders", state="ACTIVE"}') == 1
    assert telling.value("isthmus_link_lag_records") == 6
    assert telling.value("isthmus_link_lag_seconds") == 7.0
    assert telling.value('isthmus_link_partitions{state="ACTIVE"}') == 2


def test_what_is_unknown_has_no_series() -> None:
    """Rather than a number that looks like one; a state it has."""
    telling = Telling(has_partitions=True)
    unknown = topic_at("orders", state=LaneState.SOURCE_UNAVAILABLE, source_end=-1, target_end=-1)
    telling.show(link_at(unknown, state=LinkState.UNAVAILABLE))
    for name in ("replication_lag_records", "replication_lag_seconds", "link_lag_records", "link_lag_seconds"):
        assert telling.ask(f"isthmus_{name}") == {}
    assert telling.ask("isthmus_partition_position") == {}
    assert telling.value("isthmus_mirror_state") == 1
    assert telling.value("isthmus_up") == 0


def test_a_link_without_topics_is_not_late() -> None:
    """It has nothing to copy, if it is run here and was looked at; else nobody knows."""
    telling = Telling()
    telling.show(link_at())
    assert (telling.value("isthmus_link_lag_records"), telling.value("isthmus_link_lag_seconds")) == (0, 0)
    for state in (LinkState.STARTING, LinkState.STANDBY):
        telling.show(link_at(state=state))
        assert telling.ask("isthmus_link_lag_records") == telling.ask("isthmus_link_lag_seconds") == {}


def test_latency_is_a_histogram_of_prometheus() -> None:
    """Cumulated, ending with everything; count and sum agree with what was counted."""
    telling = Telling()
    telling.show(link_at(latency=latency_of(*[10.0] * 98, 900.0, 3_000_000.0)))
    below = {
        float(dict(labels)["le"]): count
        for labels, count in telling.ask("isthmus_replication_latency_seconds_bucket").items()
    }
    ordered = [below[upper] for upper in sorted(below)]
    assert ordered == sorted(ordered)
    assert next(below[upper] for upper in sorted(below) if upper > 0.011) == 98
    assert (ordered[-2], ordered[-1]) == (99, 100)
    assert telling.value("isthmus_replication_latency_seconds_count") == 100
    true_s = 98 * 0.01 + 0.9 + 3000
    assert telling.value("isthmus_replication_latency_seconds_sum") == pytest.approx(true_s, rel=0.05)


def test_counters_never_go_back() -> None:
    """Gaps and errors are counted once each, and stay counted when the lane is well again or gone."""
    telling = Telling()
    gap = (Gap(3, 8),)
    stands = (
        topic_at("orders"),
        topic_at("orders", state=LaneState.DATA_GAP, gaps=gap),
        topic_at("orders", state=LaneState.DATA_GAP, gaps=gap),
        topic_at("orders", state=LaneState.ACTIVE, gaps=gap),
        topic_at("orders", state=LaneState.NOT_AUTHORIZED),
        topic_at("orders", state=LaneState.SOURCE_UNAVAILABLE, gaps=(*gap, Gap(9, 10))),
        topic_at("orders", state=LaneState.DATA_GAP),
    )
    told = []
    for stand in stands:
        telling.show(link_at(stand))
        queries = (
            "isthmus_data_gap_records_total",
            'isthmus_source_errors_total{kind="DATA_GAP"}',
            'isthmus_source_errors_total{kind="SOURCE_UNAVAILABLE"}',
            "isthmus_auth_errors_total",
        )
        told.append(tuple(int(telling.value(query)) for query in queries))
    assert told == [(0, 0, 0, 0), (5, 1, 0, 0), (5, 1, 0, 0), (5, 1, 0, 0), (5, 1, 0, 1), (6, 1, 1, 1), (6, 2, 1, 1)]
    telling.show(link_at())
    assert telling.value('isthmus_source_errors_total{kind="DATA_GAP"}') == 2


def test_leases_are_counted_by_their_ends() -> None:
    """All ends there may be are told from the beginning, so that the first one of a kind is seen to grow."""
    totals = LeaseTotals()
    receipt = Receipt(slot=0, generation=1, ending=Ending.TERM, cpu_s=2.5, memory_bytes=1000)
    receipt = replace(receipt, throttled_source_s=1.5, throttled_target_s=0.25)
    for ended in (receipt, None, replace(receipt, ending=Ending.FAILED, memory_bytes=400)):
        totals = totals.add_lease(ended)
    telling = Telling()
    telling.show(link_at(lease_totals=totals))
    ends = {dict(key)["ending"]: value for key, value in telling.ask("isthmus_leases_ended_total").items()}
    assert {ending for ending, count in ends.items() if count} == {"TERM", "LOST", "FAILED"}
    assert len(ends) == len(Ending) + 1
    assert telling.value("isthmus_worker_cpu_seconds_total") == 5.0
    assert telling.value("isthmus_worker_memory_peak_bytes") == 1000
    assert telling.value('isthmus_throttle_seconds_total{side="source"}') == 3.0
    assert telling.value('isthmus_throttle_seconds_total{side="target"}') == 0.5


def test_problems_are_counted_by_code() -> None:
    """By the error's code; one that comes from no error by the state of what it ails."""
    unreachable, found = Problem("away", "", "ISTH-UNREACHABLE"), Problem("somebody else wrote")
    link = link_at(
        replace(topic_at("a", state=LaneState.FOREIGN_WRITE), problem=found),
        replace(topic_at("b"), problem=found),
        loops=(LoopProgress(loop="configs", state=LoopState.IN_ERROR, problem=unreachable),),
        problem=unreachable,
    )
    telling = Telling()
    telling.show(link)
    codes = {dict(key)["code"]: value for key, value in telling.ask("isthmus_problems").items()}
    assert codes == {"ISTH-UNREACHABLE": 2, "FOREIGN_WRITE": 1, "OTHER": 1}
    assert telling.value('isthmus_task_state{task="configs", state="IN_ERROR"}') == 1


def test_groups_are_late_from_when_they_were_last_in_step() -> None:
    """And not late at all once they are again."""
    telling, late = Telling(), []
    for standing in ("IN_STEP", "CATCHING_UP", "ACTIVE_AT_TARGET", "IN_STEP"):
        telling.show(link_at(groups=[GroupProgress(group="g", standing=standing, behind_records=3)]), after_s=10.0)
        late.append(telling.value("isthmus_group_offset_sync_age_seconds"))
    assert late == [0.0, 10.0, 20.0, 0.0]
    assert telling.value("isthmus_group_offset_undershoot_records") == 3
    assert telling.value('isthmus_groups{standing="IN_STEP"}') == 1


@pytest.mark.parametrize("settled", ["TRANSLATED", "BY_OTHERS", "GONE_AT_SOURCE"])
def test_a_group_that_nothing_is_due_of_is_never_late(settled: str) -> None:
    """Its position is only told, or others keep it, or it is gone: that lasts, and its age is none."""
    telling, late = Telling(), []
    for standing in ("CATCHING_UP", "CATCHING_UP", settled, settled):
        telling.show(link_at(groups=[GroupProgress(group="g", standing=standing)]), after_s=10.0)
        late.append(telling.value("isthmus_group_offset_sync_age_seconds"))
    assert late == [0.0, 10.0, 0.0, 0.0]


def test_each_group_is_late_by_itself() -> None:
    """Of two groups of a link one goes on and one stands, with more records to be read again: each has its numbers."""
    telling = Telling()
    for standing in ("IN_STEP", "CATCHING_UP"):
        steady = GroupProgress(group="steady", standing="IN_STEP", behind_records=0)
        late = GroupProgress(group="late", standing=standing, behind_records=3)
        telling.show(link_at(groups=[steady, late]), after_s=10.0)
    for name, age_s, records in (("steady", 0.0, 0), ("late", 10.0, 3)):
        assert telling.value(f'isthmus_group_offset_sync_age_seconds{{group="{name}"}}') == age_s
        assert telling.value(f'isthmus_group_offset_undershoot_records{{group="{name}"}}') == records


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_hostile_names_are_escaped(accept: str) -> None:
    """Groups may be called anything: each comes back as itself from a parser, and makes no line of its own."""
    telling = Telling()
    groups = [GroupProgress(group=name, standing="IN_STEP") for name in HOSTILE]
    telling.show(link_at(*(topic_at(f"t{name}") for name in HOSTILE), groups=groups))
    text = telling.answers.metrics(accept)[0].decode()
    parse = open_metrics if accept else plain
    samples = [sample for family in parse(text) for sample in family.samples]
    named = [s.labels["group"] for s in samples if s.name == "isthmus_group_offset_sync_age_seconds"]
    assert sorted(named) == sorted(map(label_of, HOSTILE))
    assert sum("onerror" in line for line in text.splitlines() if line.startswith("isthmus_group_")) == 1
    assert {s.labels["topic"] for s in samples if "topic" in s.labels} == {label_of(f"t{name}") for name in HOSTILE}


def test_long_names_are_cut_and_stay_apart() -> None:
    """A megabyte of a name takes no more than a line, and two that differ at their end are two series."""
    names = ["x" * 1_000_000 + end for end in "ab"]
    assert len({label_of(name) for name in names}) == 2
    assert max(len(label_of(name)) for name in names) < 250
    telling = Telling()
    telling.show(link_at(groups=[GroupProgress(group=name, standing="IN_STEP") for name in names]))
    assert len(telling.ask("isthmus_group_offset_sync_age_seconds")) == 2
    assert len(telling.text()) < 30_000


def test_ten_thousand_partitions_are_told_in_bounds() -> None:
    """Whether they are many topics or few, and also on request each: so many series, so many bytes, so quickly."""
    links = [
        link_at(*(topic_at(f"topic-{n:05}") for n in range(10_000)), link="many"),
        link_at(
            *(topic_at(f"wide-{n}", *(partition_of(f"wide-{n}", p) for p in range(100))) for n in range(100)),
            groups=[GroupProgress(group=f"g{n}", standing="IN_STEP", behind_records=0) for n in range(10_000)],
            link="wide",
        ),
    ]
    for has_partitions, bytes_max in ((False, 4_000_000), (True, 12_000_000)):
        telling = Telling(has_partitions=has_partitions)
        for link in links:
            telling.observer.take((link,), 1000.0)
        telling.observer.take(tuple(links), 1000.0)
        begun = time.process_time()
        text = telling.text()
        # It takes a tenth of that on an idle machine.
        assert time.process_time() - begun < 10
        assert len(text) < bytes_max
        telling.scrapes.add(0.0, text)
        assert len(telling.ask("isthmus_mirror_state")) == TOPICS_MAX
        assert len(telling.ask("isthmus_group_offset_sync_age_seconds")) == GROUPS_MAX
        assert len(telling.ask("isthmus_partition_position")) == (PARTITIONS_MAX if has_partitions else 0)
        left = {
            (dict(key)["link"], dict(key)["kind"]): int(value)
            for key, value in telling.ask("isthmus_link_left_out > 0").items()
        }
        assert left == {
            ("many", "topics"): 8_000,
            ("wide", "topics"): 100,
            ("wide", "groups"): 8_000,
            **({("wide", "partitions"): 10_000} if has_partitions else {}),
        }
        # What tells of the link has them all.
        assert sum(telling.ask("isthmus_link_records_replicated_total").values()) == 200_000
        assert sum(telling.ask("isthmus_link_partitions").values()) == 20_000


def test_a_scrape_within_half_a_second_is_told_the_same() -> None:
    """However many ask at once, it is worked out once; later it is worked out anew."""
    telling = Telling()
    telling.show(link_at(topic_at("orders", records=1)))
    telling.observer.take((link_at(topic_at("orders", records=2)),), telling.now_s)
    assert telling.text() == telling.text()
    assert 'isthmus_records_replicated_total{link="east-west",source="east",target="west",topic="orders"} 1.0' in (
        telling.text()
    )
    telling.now_s += 0.5
    telling.scrape()
    assert telling.value("isthmus_records_replicated_total") == 2
    assert telling.value("isthmus_progress_age_seconds") == 0.5


def test_what_waits_for_a_transaction_is_told_beside_the_lag() -> None:
    """How many offsets and for how long; what is not known has no series, and what waits for none is 0."""
    telling = Telling()
    telling.show(
        link_at(
            topic_at("held", waiting_records=501, waiting_s=40.0),
            topic_at("calm"),
            topic_at("unseen", waiting_records=-1),
            topic_at("undated", waiting_records=3),
        )
    )
    waiting = telling.ask("isthmus_replication_waiting_records")
    assert sorted(waiting.values()) == [0, 3, 501]
    assert sorted(telling.ask("isthmus_replication_waiting_seconds").values()) == [0, 40]
    assert telling.value('isthmus_replication_waiting_seconds{topic="held"}') == 40.0
    assert telling.value('isthmus_replication_lag_records{topic="held"}') == 0
