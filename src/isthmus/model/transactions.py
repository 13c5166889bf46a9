"""Transactions that have begun and not ended, as leaders and coordinators tell them (KIP-664)."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TransactionState(enum.StrEnum):
    """What is known of a transaction that a partition's leader has as open."""

    OPEN = "open"
    """Its coordinator knows it and will end it, at the latest when it times out."""
    HANGING = "hanging"
    """No coordinator knows it: nobody will ever end it."""
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
