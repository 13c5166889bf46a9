"""Transactions that have begun and not ended, as leaders and coordinators report them (KIP-664)."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

_INDEX_AT: Final = 48
_EPOCHS_BEGAN_S: Final = 1_577_836_800
_LONE: Final = 1 << 62
"""Clusters count producer ids up from 0: they will never reach this."""


def lone_producer_id(source_producer_id: int) -> int:
    """Return the producer id for a link's copies of a source producer's transactional records, unknown to any
    coordinator.

    Mirrored once more it stays the same.
    """
    return source_producer_id | _LONE


def source_producer_id(producer_id: int) -> int:
    """Return the producer of the source whose transactions are copied under this one."""
    return producer_id & ~_LONE


MARKER_PRODUCERS: Final = 16
"""A leader remembers each for a day, and answers once for each: so many markers at once are answered one by one."""


def marker_producer_ids(producer_id: int, offset_begin: int, count: int) -> list[int]:
    """Return the producers of control records without a transaction at `count` offsets from `offset_begin` on.

    The producer follows from the offset: `producer_id` or one derived from it. So a second marker for the same offset
    fences the one that was given up, see `marker_epoch`.
    """
    # An id that a gateway has marked has bits there.
    others = producer_id & ~((MARKER_PRODUCERS - 1) << _INDEX_AT) | _LONE
    ids = [producer_id, *(others | index << _INDEX_AT for index in range(1, MARKER_PRODUCERS))]
    return [ids[offset % MARKER_PRODUCERS] for offset in range(offset_begin, offset_begin + count)]


def marker_epoch(before: int, reported: int, now_s: float) -> int:
    """Return the coordinator epoch for the control records that a lane writes after a look at its log: larger than all
    before it.

    A leader refuses markers of a producer whose coordinator epoch is below the last one's (0.11 on). So a marker that
    was given up, and that a network delivers late, is refused once its replacement is there. `before` is the lane's
    last, `reported` the largest in the log as far as the leader reports it (KIP-664). The clock covers the case that
    neither knows: the last epoch of an owner that is gone.
    """
    return max(before + 1, reported + 1, int(now_s) - _EPOCHS_BEGAN_S)


def is_lone(producer_id: int) -> bool:
    """Return whether a producer id came from no coordinator: records and markers under it are written by a link."""
    return producer_id >= _LONE


def is_marker(producer_id: int) -> bool:
    """Return whether a lone producer id is one of `marker_producer_ids`: its control records end no transaction."""
    return is_lone(producer_id) and producer_id >> _INDEX_AT & (MARKER_PRODUCERS - 1) != 0


class AbortedPolicy(enum.StrEnum):
    """The treatment of the records of aborted transactions."""

    AUTO = "auto"
    """They are copied where that is exactly once, and left out where it is not.

    Without ALTER on the cluster neither is: they are copied then, and a partition may stop when a broker fails.
    """
    COPY = "copy"
    """They are in aborted transactions at the target."""
    OMIT = "omit"
    """They are left out: control records take their offsets."""


class Visibility(enum.StrEnum):
    """The way in which transactions become visible at the target."""

    AUTO = "auto"
    """Whole if the target can, record by record otherwise."""
    WHOLE = "whole"
    """Records are in transactions there as well, before the outcome of these is known."""
    RECORD = "record"
    """Records of a committed transaction are copied once it is committed, as any others."""


class TransactionState(enum.StrEnum):
    """A transaction that a partition's leader has as open."""

    OPEN = "open"
    """Its coordinator knows it and will end it, at the latest when it times out."""
    HANGING = "hanging"
    """No coordinator knows it: it would stay open for ever."""
    MIRRORED = "mirrored"
    """A link of ours copies a transaction into it, and ends it; no coordinator knows it."""
    UNKNOWN = "unknown"
    """The coordinators did not report it: their version, our rights, or an election."""


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

    @property
    def owner(self) -> str:
        """The owner of the transaction, as well as it is known."""
        if self.transactional_id is None and is_lone(self.producer_id):
            return f"producer {source_producer_id(self.producer_id)} of the source"
        return self.transactional_id or f"producer {self.producer_id}"

    def age_s(self, now_s: float) -> float | None:
        """Return how long it has been open, by its first record there or by its coordinator; `None` if unknown."""
        began = [at for at in (self.since_ms, self.started_ms) if at is not None and at >= 0]
        return max(now_s - min(began) / 1000, 0.0) if began else None


def waited_for(transaction: OpenTransaction | None, age_s: float | None) -> str:
    """Describe the transaction that records wait for, and for how long by now, as far as that is known."""
    whose = "an open transaction" if transaction is None else f"the transaction of {transaction.owner}"
    return whose if age_s is None else f"{whose}, open for {age_s:,.0f} s"
