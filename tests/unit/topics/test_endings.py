"""Partitions that have ended, as they are remembered: until they are active again, and no longer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from isthmus.ledger.documents.kinds import EndedPartition
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.endings import ended_partitions
from isthmus.topics.plan import Action, TopicPlan
from isthmus.topics.preflight import PartitionDecision

LOST = Problem("the source lost it")


def topic(*decisions: PartitionDecision) -> TopicPlan:
    """A topic of these partitions."""
    return TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partition_count=len(decisions),
        partitions=decisions,
    )


def decision(partition: int, **settings: Any) -> PartitionDecision:
    """A partition that is copied unless told otherwise."""
    return PartitionDecision(partition=partition, source=None, target_end=-1, **settings)


def ended(state: LaneState | None, before: EndedPartition | None = None) -> LaneState | None:
    """What is remembered of a partition whose lane last reported this state."""
    report = {} if state is None else {KEY: LaneReport(key=KEY, state=state, problem=LOST)}
    found = ended_partitions(topic(decision(0)), () if before is None else (before,), report)
    return LaneState(found[0].state) if found else None


KEY = LaneKey(TargetTopic("orders"), 0)
BEFORE = EndedPartition(partition=0, state="DIVERGED", problem=LOST)


@given(st.none() | st.sampled_from(LaneState))
def test_only_an_active_lane_takes_an_ending_back(state: LaneState | None) -> None:
    """A lane that was not heard yet, pauses or looks for its place says nothing of how it ended before."""
    assert ended(state) == (state if state is not None and state.is_terminal else None)
    if state is LaneState.ACTIVE:
        assert ended(state, BEFORE) is None
    else:
        assert ended(state, BEFORE) == (state if state is not None and state.is_terminal else LaneState.DIVERGED)


def test_each_partition_is_remembered_by_itself() -> None:
    """One that ended, one that was refused by the plan, one that is sound: two are remembered, with their reasons."""
    refused = decision(1, refusal=LOST, state=LaneState.FOREIGN_WRITE)
    plan = topic(decision(0), refused, decision(2))
    reports = {
        KEY: LaneReport(key=KEY, state=LaneState.DIVERGED, problem=LOST),
        LaneKey(TargetTopic("orders"), 2): LaneReport(key=LaneKey(TargetTopic("orders"), 2), state=LaneState.ACTIVE),
    }
    assert ended_partitions(plan, (), reports) == (
        BEFORE,
        EndedPartition(partition=1, state="FOREIGN_WRITE", problem=LOST),
    )
