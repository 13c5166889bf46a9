"""Elections of preferred leaders: the needed ones, the possible ones, and the result of each."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypedDict

from isthmus.model.kafka.partitions import NO_LEADER, PartitionState


class ElectionOutcome(enum.StrEnum):
    """What becomes of an election."""

    NOT_NEEDED = "not-needed"
    """The preferred replica leads already."""
    PENDING = "pending"
    """The election is needed and possible."""
    NOT_POSSIBLE = "not-possible"
    """The preferred replica is not in sync: electing it would lose records."""
    ELECTED = "elected"
    FAILED = "failed"
    """The controller refused; `detail` says why."""


class ElectionJson(TypedDict):
    """An election of a preferred leader."""

    topic: str
    partition: int
    leader: int | None
    preferred: int
    outcome: Annotated[str, ElectionOutcome]
    detail: str


class Election(NamedTuple):
    """One partition's election. `leader` is the one before it, -1 for none."""

    topic: str
    partition: int
    leader: int
    preferred: int
    outcome: ElectionOutcome
    detail: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether another replica than the preferred one keeps leading."""
        return self.outcome in (ElectionOutcome.NOT_POSSIBLE, ElectionOutcome.FAILED)

    def as_dict(self) -> ElectionJson:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": None if self.leader == NO_LEADER else self.leader,
            "preferred": self.preferred,
            "outcome": str(self.outcome),
            "detail": self.detail,
        }


def plan_elections(partitions: Iterable[PartitionState]) -> tuple[Election, ...]:
    """Return the election that each partition needs so that its preferred replica leads."""
    return tuple(_plan_election(partition) for partition in partitions)


def _plan_election(partition: PartitionState) -> Election:
    outcome, detail = ElectionOutcome.PENDING, ""
    if partition.leader == partition.preferred:
        outcome = ElectionOutcome.NOT_NEEDED
    elif partition.preferred not in partition.isr:
        outcome, detail = ElectionOutcome.NOT_POSSIBLE, f"replica {partition.preferred} is not in sync"
    return Election(partition.topic, partition.partition, partition.leader, partition.preferred, outcome, detail)
