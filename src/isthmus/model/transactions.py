"""Transactions that have begun and not ended, as leaders and coordinators tell them (KIP-664)."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

_INDEX_AT: Final = 48
_LONE: Final = 1 << 62
"""Clusters count producer ids up from 0: they will never get there."""


def lone_producer_id(source_producer_id: int) -> int:
    """The producer under which a link writes aborted records of a producer of the source, unknown to any coordinator.

    Mirrored once more it stays as it is.
    """
    return source_producer_id | _LONE


def marker_producer_ids(producer_id: int, count: int) -> list[int]:
    """`count` producers (at most 2^14) for control records that belong to no transaction, `producer_id` the first.

    A broker answers once for each producer, so where every marker has one of its own each is answered.
    """
    return [producer_id, *(producer_id | _LONE | index << _INDEX_AT for index in range(1, count))]


def is_lone(producer_id: int) -> bool:
    """Whether a producer id is one that no coordinator gave: records and markers under it are the work of a link."""
    return producer_id >= _LONE


class AbortedPolicy(enum.StrEnum):
    """What becomes of the records of aborted transactions."""

    AUTO = "auto"
    """They are copied where that is exactly once, and left out where it is not."""
    COPY = "copy"
    """They are in aborted transactions at the target."""
    OMIT = "omit"
    """They are left out: control records take their offsets."""


class TransactionState(enum.StrEnum):
    """What is known of a transaction that a partition's leader has as open."""

    OPEN = "open"
    """Its coordinator knows it and will end it, at the latest when it times out."""
    HANGING = "hanging"
    """No coordinator knows it: nobody will ever end it."""
    MIRRORED = "mirrored"
    """A link of ours copies an aborted transaction into it, and ends it; no coordinator knows it."""
    UNKNOWN = "unknown"
    """The coordinators did not tell: their version, our rights, or an election."""


class OpenTransaction(NamedTuple):
    """A transaction in one partition: from `first_offset` on consumers at read_committed have to wait.

    `since_ms` is the timestamp of its first record there, `started_ms` when the coordinator says it began.
    """

    topic: str
    partition: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    held_records: int
    since_ms: int | None = None
    transactional_id: str | None = None
    coordinator: int | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain values under stable names."""
        return {**self._asdict(), "state": str(self.state)}
