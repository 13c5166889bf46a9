"""Elections of preferred leaders: the needed ones, the possible ones, and the result of each."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.text.plain import PlainValue, null_if_negative


class ElectionOutcome(enum.StrEnum):
    """The result of an election."""

    NOT_NEEDED = "not-needed"
    """The preferred replica leads already."""
    PENDING = "pending"
    """The election is needed and possible."""
    NOT_POSSIBLE = "not-possible"
    """The preferred replica is not in sync: electing it would lose records."""
    ELECTED = "elected"
    FAILED = "failed"
    """The controller refused; `detail` states why."""


@dataclass(frozen=True, slots=True)
class Election(PlainValue):
    """An election of a preferred leader.

    `leader` is the one before it, -1 for none.
    """

    topic: str
    partition: int
    leader: Annotated[int, null_if_negative]
    preferred: int
    outcome: ElectionOutcome
    detail: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether another replica than the preferred one keeps leading."""
        return self.outcome in (ElectionOutcome.NOT_POSSIBLE, ElectionOutcome.FAILED)


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
