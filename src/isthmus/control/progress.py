"""How far links are: partitions, topics and links at one moment, as values."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from isthmus.control.plan import LinkPlan, TopicPlan, problem_dict
from isthmus.model.lane import Gap, LaneKey, LaneReport, LaneState, Problem


class LinkState(enum.StrEnum):
    """Where a link stands."""

    STARTING = "STARTING"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    UNAVAILABLE = "UNAVAILABLE"
    """A cluster does not answer; tried again."""
    FAILED = "FAILED"
    """Cannot go on without an operator."""
    STOPPED = "STOPPED"
    """No controller runs it."""


_CALM = (LaneState.ACTIVE, LaneState.PAUSED, LaneState.STARTING, LaneState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """One partition. Offsets are -1 while unknown; `lag_s` is the age of the oldest record to copy.

    `records` is what the present run has copied. `gaps` are offsets the source deleted before they were copied.
    """

    topic: str
    partition: int
    state: LaneState
    target_end: int = -1
    source_end: int = -1
    records: int = 0
    lag_s: float | None = None
    records_per_s: float | None = None
    problem: Problem | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def lag_records(self) -> int:
        """Offsets still to copy, -1 while unknown."""
        if self.target_end < 0 or self.source_end < 0:
            return -1
        return max(self.source_end - self.target_end, 0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names; what is unknown is null."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "state": str(self.state),
            "source_end": _known(self.source_end),
            "target_end": _known(self.target_end),
            "lag_records": _known(self.lag_records),
            "lag_seconds": None if self.lag_s is None else round(self.lag_s, 3),
            "records_per_second": _rounded(self.records_per_s),
            "gaps": [{"offset_begin": gap.offset_begin, "offset_end": gap.offset_end} for gap in self.gaps],
            "problem": problem_dict(self.problem) if self.problem else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """One topic. Its state and problem are those of the partition that needs most attention."""

    topic: str
    state: LaneState
    partitions: tuple[PartitionProgress, ...] = ()
    problem: Problem | None = None

    @property
    def lag_records(self) -> int:
        """Offsets still to copy in all partitions, -1 while any is unknown."""
        lags = [partition.lag_records for partition in self.partitions]
        return -1 if not lags or min(lags) < 0 else sum(lags)

    @property
    def records(self) -> int:
        """Records copied by the present run."""
        return sum(partition.records for partition in self.partitions)

    @property
    def is_unfinished(self) -> bool:
        """Whether some of it is not being copied, for whatever reason but a pause."""
        return self.state not in _CALM or any(p.state not in _CALM for p in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names; what is unknown is null."""
        rates = [p.records_per_s for p in self.partitions if p.records_per_s is not None]
        return {
            "topic": self.topic,
            "state": str(self.state),
            "source_end": _total(p.source_end for p in self.partitions),
            "target_end": _total(p.target_end for p in self.partitions),
            "lag_records": _known(self.lag_records),
            "lag_seconds": max((round(p.lag_s, 3) for p in self.partitions if p.lag_s is not None), default=None),
            "records_per_second": _rounded(sum(rates)) if rates else None,
            "problem": problem_dict(self.problem) if self.problem else None,
            "partitions": [partition.as_dict() for partition in self.partitions],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """One consumer group that the link carries, and how it stands at the target."""

    group: str
    standing: str
    problem: Problem | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "group": self.group,
            "standing": self.standing,
            "problem": problem_dict(self.problem) if self.problem else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProgress:
    """One link. `records` and `size_bytes` are what the present run has copied."""

    link: str
    source: str
    target: str
    state: LinkState
    topics: tuple[TopicProgress, ...] = ()
    groups: tuple[GroupProgress, ...] = ()
    records: int = 0
    size_bytes: int = 0
    problem: Problem | None = None

    @property
    def lag_records(self) -> int:
        """Offsets still to copy, as far as they are known."""
        return sum(max(topic.lag_records, 0) for topic in self.topics)

    @property
    def is_unfinished(self) -> bool:
        """Whether some of it is not being copied, for whatever reason but a pause."""
        return self.state is LinkState.FAILED or any(topic.is_unfinished for topic in self.topics)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "state": str(self.state),
            "lag_records": self.lag_records,
            "problem": problem_dict(self.problem) if self.problem else None,
            "topics": [topic.as_dict() for topic in self.topics],
            "groups": [group.as_dict() for group in self.groups],
        }


def topics_of(plan: LinkPlan, reports: Mapping[LaneKey, LaneReport]) -> tuple[TopicProgress, ...]:
    """The topics of a link as its plan and the newest reports of its lanes tell."""
    return tuple(_topic(topic, reports) for topic in plan.topics)


def topic_of(name: str, partitions: Iterable[PartitionProgress]) -> TopicProgress:
    """A topic from its partitions."""
    found = tuple(partitions)
    worst = max(found, key=lambda p: _attention(p.state), default=None)
    return TopicProgress(
        topic=name,
        state=LaneState.STARTING if worst is None else worst.state,
        partitions=found,
        problem=None if worst is None else worst.problem,
    )


def _topic(topic: TopicPlan, reports: Mapping[LaneKey, LaneReport]) -> TopicProgress:
    if topic.reasons:
        return TopicProgress(topic=topic.topic, state=topic.state, problem=topic.reasons[0])
    partitions = []
    for decision in topic.partitions:
        report = reports.get(LaneKey(topic.topic, decision.partition))
        state: LaneState
        problem: Problem | None
        if decision.refusal is not None:
            state, problem = decision.state, decision.refusal
        else:
            state = LaneState.STARTING if report is None else report.state
            problem = None if report is None else report.problem
        source_end = -1 if decision.source is None else decision.source.stable_end
        partitions.append(
            PartitionProgress(
                topic=topic.topic,
                partition=decision.partition,
                state=state,
                target_end=decision.target_end if report is None else report.position,
                source_end=source_end if report is None else report.source_end,
                records=0 if report is None else report.records,
                problem=problem,
                gaps=() if report is None else report.gaps,
            )
        )
    return topic_of(topic.topic, partitions)


def _attention(state: LaneState) -> int:
    if state.is_terminal:
        return 3
    if state not in _CALM:
        return 2
    return 0 if state is LaneState.ACTIVE else 1


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _total(numbers: Iterable[int]) -> int | None:
    found = list(numbers)
    return None if not found or min(found) < 0 else sum(found)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
