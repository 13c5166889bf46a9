"""How far links are: states and lags of partitions become those of topics and links."""

from __future__ import annotations

from typing import Any

from isthmus.cluster.offsets import LogRange
from isthmus.control.outcome import RunOutcome
from isthmus.control.plan import Action, LinkPlan, TopicPlan
from isthmus.control.progress import LinkProgress, LinkState, TopicProgress, topics_of
from isthmus.errors import Fenced, IsthmusError, Unreachable
from isthmus.lane.preflight import PartitionDecision
from isthmus.model.lane import LaneKey, LaneReport, LaneState, Problem


def decision(partition: int, **fields: Any) -> PartitionDecision:
    """A partition of 100 records, none of them copied."""
    return PartitionDecision(partition=partition, source=LogRange(0, 100, 100), target_end=0, **fields)


def topic_after(*partitions: PartitionDecision, **reports: LaneReport) -> TopicProgress:
    """How a planned topic stands after some reports, by partition (p0, p1)."""
    topic = TopicPlan(topic="orders", action=Action.COPY, partition_count=len(partitions), partitions=partitions)
    plan = LinkPlan(link="l", source="a", target="b", topics=(topic,))
    return topics_of(plan, {LaneKey("orders", int(name[1:])): report for name, report in reports.items()})[0]


def report(partition: int, state: LaneState, position: int, problem: Problem | None = None) -> LaneReport:
    """A lane's report with 100 records at the source."""
    key = LaneKey("orders", partition)
    return LaneReport(key=key, state=state, position=position, source_end=100, problem=problem)


def test_lag_before_the_first_report_is_the_plans() -> None:
    """Until lanes report, what was observed tells how much there is to do."""
    topic = topic_after(decision(0), decision(1), p0=report(0, LaneState.ACTIVE, 40))
    assert topic.lag_records == 160
    assert topic.state is LaneState.STARTING


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
    shown = topic.as_dict()
    assert (shown["source_end"], shown["target_end"], shown["lag_records"]) == (None, None, None)


def link(state: LinkState = LinkState.ACTIVE, topic_state: LaneState = LaneState.ACTIVE) -> LinkProgress:
    """A link with one topic."""
    topics = (TopicProgress(topic="orders", state=topic_state),)
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
