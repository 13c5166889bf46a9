"""Which of the records that were read were undone: their transaction was aborted after all.

The ledger is read past what is not committed yet, so that nobody waits for a writer that stopped in the middle. The
coordinator aborts what such a writer left open, and brokers drop its records, at some later time, from the log.

Taken back is only what operators want. All else counts as soon as it was written, aborted or not: a task may have acted
on it, and whoever takes over has to see what the task saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isthmus.ledger.documents import WANTED, kind_of
from isthmus.ledger.records import Entry
from isthmus.wire.aborted import ABORT, control_type
from isthmus.wire.batch import Batch


class OpenTransactions:
    """What was read of transactions whose end was not read yet: told batch by batch."""

    def __init__(self) -> None:
        # Offsets and keys, by producer id.
        self._open: dict[int, dict[int, str]] = {}

    def take(self, batch: Batch, entries: Sequence[Entry]) -> Mapping[int, str]:
        """Go on to the next batch of the log; the keys, by offset, of what it says was aborted."""
        if batch.is_control:
            found = self._open.pop(batch.producer_id, {})
            return found if control_type(batch) == ABORT else {}
        if batch.is_transactional:
            wanted = {entry.offset: entry.key for entry in entries if kind_of(entry.key) in WANTED}
            self._open.setdefault(batch.producer_id, {}).update(wanted)
        return {}

    def copy(self) -> OpenTransactions:
        """The same, going on apart."""
        other = OpenTransactions()
        other._open = {producer: dict(found) for producer, found in self._open.items()}
        return other
