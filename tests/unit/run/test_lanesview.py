"""How far links are: states and lags of partitions become those of topics and links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isthmus.errors import Fenced, GateNotMet, IsthmusError, Unreachable
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import UNHEARD, UNHEARD_S, ControllerState, LinkState
from isthmus.model.text.plain import plain
from isthmus.run.lanesview import LanesView, topics_of
from isthmus.spark.leases.progress import Count, LanePlace
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.preflight import PartitionDecision

COUNTS = {LaneKey(TargetTopic("orders"), 0): Count(7, 70)}


def decision(partition: int, **fields: Any) -> PartitionDecision:
    """A partition of 100 records, none of them copied."""
    return PartitionDecision(partition=partition, source=LogRange(0, 100, 100), target_end=0, **fields)


def topic_after(
    *partitions: PartitionDecision,
    controller: ControllerState = ControllerState.ALIVE,
    paused: Pauses = NO_PAUSES,
    **reports: LaneReport,
) -> TopicProgress:
    """How a planned topic stands after some reports, by partition (p0, p1)."""
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=len(partitions),
        partitions=partitions,
    )
    plan = LinkPlan(link="l", source="a", target="b", topics=(topic,))
    found = {LaneKey(TargetTopic("orders"), int(name[1:])): report for name, report in reports.items()}
    looked_s = {topic.topic: 3.0}
    view = LanesView(controller=controller, reports=found, counts=COUNTS, ages_s={}, paused=paused, looked_s=looked_s)
    return topics_of(plan, view)[0]


def report(partition: int, state: LaneState, position: int, problem: Problem | None = None) -> LaneReport:
    """A lane's report with 100 records at the source."""
    key = LaneKey(TargetTopic("orders"), partition)
    return LaneReport(key=key, state=state, position=position, source_end=100, problem=problem)


def test_what_was_copied_counts_before_the_lane_has_reported_anew() -> None:
    """A session that was built anew knows nothing of its lanes yet; what the run copied before is told all the same."""
    topic = topic_after(decision(0), decision(1))
    assert [p.records for p in topic.partitions] == [7, 0]
    assert (topic.records, topic.size_bytes) == (7, 70)


def test_lag_before_the_first_report_is_the_plans() -> None:
    """Until lanes report, what was observed tells how much there is to do."""
    topic = topic_after(decision(0), decision(1), p0=report(0, LaneState.ACTIVE, 40))
    assert topic.lag_records == 160
    assert topic.state is LaneState.STARTING
    assert [p.source_age_s for p in topic.partitions] == [0.0, 3.0], "as old as the plan is"


def test_lag_of_a_lane_that_looks_for_its_place_is_the_one_before() -> None:
    """A lane that does not know where it is any more was somewhere; what was planned long ago says less."""
    key, searching = LaneKey(TargetTopic("orders"), 0), report(0, LaneState.STARTING, -1)
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=1,
        partitions=(decision(0),),
    )
    plan = LinkPlan(link="l", source="a", target="b", topics=(topic,))
    searching = replace(searching, source_end=-1)
    arrived = report(0, LaneState.ACTIVE, 70)
    over = replace(searching, state=LaneState.DIVERGED)
    for told, last, lag in (
        (searching, LanePlace(40, 100), 60),
        (searching, LanePlace(40, 130), 90),
        (searching, LanePlace(-1, -1), 100),
        (arrived, LanePlace(40, 130), 30),
        # What it had copied may be no copy of this source: only what is known to be right counts.
        (over, LanePlace(40, 130), -1),
        (replace(over, position=30, source_end=130), LanePlace(130, 130), 100),
    ):
        view = LanesView(
            controller=ControllerState.ALIVE, reports={key: told}, counts=COUNTS, ages_s={}, places={key: last}
        )
        assert topics_of(plan, view)[0].lag_records == lag


def test_what_a_whole_lane_has_copied_waits_to_be_seen() -> None:
    """It has copied what is open at the source, which nobody who reads committed records sees: that is told as
    elsewhere, where such records wait to be copied.
    """
    whole = replace(report(0, LaneState.ACTIVE, 100), source_log_end=100, stable_end=70)
    copied = replace(report(1, LaneState.ACTIVE, 70), source_end=70, source_log_end=100)
    topic = topic_after(decision(0), decision(1), p0=whole, p1=copied)
    assert [(p.source_end, p.lag_records, p.waiting_records) for p in topic.partitions] == [(70, 0, 30), (70, 0, 30)]


def test_what_was_left_out_is_known_before_the_lane_has_its_place() -> None:
    """A counter that began at 0 with each run would show old failures as new ones."""
    before = topic_after(decision(0, copied_end=60, skipped=7, filtered=20))
    assert (before.skipped, before.filtered) == (7, 20)


def test_a_lane_with_a_place_says_itself_what_it_left_out() -> None:
    """Its topic may have begun again since the plan was made."""
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=1,
        partitions=(decision(0, copied_end=60, skipped=7, filtered=20),),
        is_mapped=True,
    )
    key = LaneKey(TargetTopic("orders"), 0)
    view = LanesView(
        controller=ControllerState.ALIVE,
        reports={key: report(0, LaneState.ACTIVE, 10)},
        counts=COUNTS,
        ages_s={},
        places={key: LanePlace(10, 100, skipped=1, filtered=2)},
    )
    (found,) = topics_of(LinkPlan(link="l", source="a", target="b", topics=(topic,)), view)
    assert (found.skipped, found.filtered) == (1, 2)


def test_a_mapped_lane_tells_its_place_at_the_source() -> None:
    """Its lag follows from that, whatever the target holds; before it has reported, from what was planned. Once it has
    moved on, the target's end that was planned with is none of now, and unknown.
    """
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=3,
        partitions=tuple(replace(decision(p, copied_end=end), target_end=500) for p, end in enumerate((0, 30, -1))),
        is_mapped=True,
    )
    plan = LinkPlan(link="l", source="a", target="b", topics=(topic,))
    reports = {LaneKey(TargetTopic("orders"), 0): report(0, LaneState.ACTIVE, 60)}
    view = LanesView(controller=ControllerState.ALIVE, reports=reports, counts=COUNTS, ages_s={})
    (found,) = topics_of(plan, view)
    assert [(p.copied_end, p.target_end, p.lag_records) for p in found.partitions] == [
        (60, -1, 40),
        (30, 500, 70),
        (-1, 500, -1),
    ]
    assert (found.is_mapped, plain(found)["offsets"]) == (True, "mapped")


def test_topic_has_the_state_that_needs_most_attention() -> None:
    """One failed partition shows in its topic, with its problem; the others' states stay their own."""
    problem = Problem("broken", "mend it")
    topic = topic_after(
        decision(0),
        decision(1),
        p0=report(0, LaneState.ACTIVE, 100),
        p1=report(1, LaneState.FAILED, 10, problem),
    )
    assert (topic.state, topic.problem, topic.is_unfinished) == (LaneState.FAILED, problem, True)
    assert [p.state for p in topic.partitions] == [LaneState.ACTIVE, LaneState.FAILED]


def test_refused_partition_is_shown_as_refused() -> None:
    """A partition that preflight refuses has no lane and still shows why."""
    problem = Problem("too many holes")
    topic = topic_after(
        decision(0, refusal=problem, state=LaneState.REFUSED), decision(1), p1=report(1, LaneState.ACTIVE, 100)
    )
    assert (topic.state, topic.problem) == (LaneState.REFUSED, problem)


def test_unknown_numbers_are_null() -> None:
    """What is not known is not shown as a number."""
    topic = topic_after(PartitionDecision(partition=0, source=None, target_end=-1))
    shown = plain(topic)
    assert (shown["source_end"], shown["target_end"], shown["lag_records"]) == (None, None, None)


def test_paused_topic_keeps_its_lag() -> None:
    """A pause is what a topic shows, with what is left to copy; nothing is in its way."""
    topic = topic_after(decision(0), paused=Pauses.of([TargetTopic("orders")]), p0=report(0, LaneState.ACTIVE, 40))
    assert (topic.state, topic.lag_records, topic.is_unfinished) == (LaneState.PAUSED, 60, False)
    ended = topic_after(decision(0), paused=Pauses.of([None]), p0=report(0, LaneState.DIVERGED, 40))
    assert ended.state is LaneState.DIVERGED


def test_lanes_of_a_run_that_ended_are_stopped() -> None:
    """After the end nothing is ACTIVE; what was in the way still is told, and what stopped for good stays so."""
    problem = Problem("no leader")
    topic = topic_after(
        decision(0),
        decision(1),
        decision(2),
        controller=ControllerState.NONE,
        p0=report(0, LaneState.ACTIVE, 40),
        p1=report(1, LaneState.TARGET_UNAVAILABLE, 40, problem),
        p2=report(2, LaneState.DATA_GAP, 40),
    )
    assert [p.state for p in topic.partitions] == [LaneState.STOPPED, LaneState.STOPPED, LaneState.DATA_GAP]
    assert [p.is_unfinished for p in topic.partitions] == [False, True, True]


def test_lag_counts_only_what_the_source_has() -> None:
    """What the source deleted before anything was copied is nothing to copy."""
    partition = PartitionDecision(partition=0, source=LogRange(60, 100, 100), target_end=0)
    assert topic_after(partition).lag_records == 40


def test_what_was_not_heard_for_long_says_so() -> None:
    """Ends and states are as old as the report they are from; what follows from the controller alone is new."""
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=1,
        partitions=(decision(0),),
    )
    plan = LinkPlan(link="l", source="a", target="b", topics=(topic,))
    key, found = LaneKey(TargetTopic("orders"), 0), report(0, LaneState.ACTIVE, 40)
    for controller, state_age_s in ((ControllerState.ALIVE, 24.0), (ControllerState.NONE, 0.0)):
        view = LanesView(controller=controller, reports={key: found}, counts=COUNTS, ages_s={key: 24.0})
        (partition,) = topics_of(plan, view)[0].partitions
        assert (partition.state_age_s, partition.age_s) == (state_age_s, 24.0)
        assert plain(partition)["source_end_age_seconds"] == 24.0
    lost = {key: replace(found, state=LaneState.SOURCE_UNAVAILABLE, heard_ms=1_000)}
    view = LanesView(controller=ControllerState.ALIVE, reports=lost, counts=COUNTS, ages_s={key: 2.0}, at_ms=61_000)
    (partition,) = topics_of(plan, view)[0].partitions
    assert plain(partition)["source_end_age_seconds"] == 60.0, "a lane that tells of a silent source heard nothing"
    silent = LanesView(
        controller=ControllerState.ALIVE, reports={key: found}, counts=COUNTS, ages_s={key: UNHEARD_S + 1}
    )
    (partition,) = topics_of(plan, silent)[0].partitions
    assert (partition.state, partition.problem, partition.is_unfinished) == (LaneState.STARTING, UNHEARD, True)


def test_lag_of_a_link_is_unknown_while_that_of_a_topic_is() -> None:
    """A sum of what is known is no lag: it is told apart, as the least it can be."""
    known = topic_after(decision(0), p0=report(0, LaneState.ACTIVE, 40))
    unknown = TopicProgress(
        topic=TargetTopic("audit"), source_topic=SourceTopic("audit"), state=LaneState.SOURCE_UNAVAILABLE
    )
    found = LinkProgress(link="l", source="a", target="b", state=LinkState.ACTIVE, topics=(known, unknown))
    assert (plain(found)["lag_records"], plain(found)["lag_records_min"]) == (None, 60)


def link(state: LinkState = LinkState.ACTIVE, topic_state: LaneState = LaneState.ACTIVE) -> LinkProgress:
    """A link with one topic."""
    topics = (TopicProgress(topic=TargetTopic("orders"), source_topic=SourceTopic("orders"), state=topic_state),)
    return LinkProgress(link="l", source="a", target="b", state=state, topics=topics)


def test_exit_codes_tell_how_a_run_ended() -> None:
    """A signal, the one error of all links, an error of some, a topic left behind, or nothing at all."""
    fenced: dict[str, IsthmusError] = {"one": Fenced("over")}
    both: dict[str, IsthmusError] = {**fenced, "two": Unreachable("away")}
    assert RunOutcome(links=(link(), link()), signal=15).exit_code == 143
    assert RunOutcome(links=(link(),), errors=fenced).exit_code == 15
    assert RunOutcome(links=(link(), link()), errors=fenced).exit_code == 1
    assert RunOutcome(links=(link(), link()), errors=both).exit_code == 15
    assert RunOutcome(links=(link(topic_state=LaneState.DATA_GAP),)).exit_code == 1
    assert RunOutcome(links=(link(),)).exit_code == 0


def test_run_that_was_to_catch_up_and_did_not() -> None:
    """A paused link is not caught up: the run that was to catch up says so by its exit code, and no other run does."""
    held = RunOutcome(links=(link(LinkState.PAUSED),), is_to_catch_up=True)
    assert (held.is_caught_up, held.exit_code) == (False, GateNotMet.exit_code)
    done = RunOutcome(links=(link(),), is_to_catch_up=True, caught_up=frozenset({"l"}))
    assert (done.is_caught_up, done.exit_code) == (True, 0)
    assert RunOutcome(links=(link(LinkState.PAUSED),)).exit_code == 0
