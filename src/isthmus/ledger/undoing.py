"""Which of the records that were read were undone: their transaction was aborted after all.

The ledger is read past what is not committed yet, so that nobody waits for a writer that stopped in the middle. The
coordinator aborts what such a writer left open, and brokers drop its records, at some later time, from the log.

Taken back is only what operators want. All else counts as soon as it was written, aborted or not: a task may have acted
on it, and whoever takes over has to see what the task saw. So whoever takes over writes it again: what brokers drop one
day would give way to what was said before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isthmus.ledger.documents import WANTED, kind_of
from isthmus.ledger.records import Entry
from isthmus.wire.aborted import ABORT, control_type
from isthmus.wire.batch import Batch


class OpenTransactions:
    """What was read of transactions whose end was not read yet: told batch by batch.

    `aborted` are the keys of what counts although its transaction was aborted, as nothing was written there since.
    """

    def __init__(self) -> None:
        self.aborted: set[str] = set()
        # Offsets and keys, by producer id; and the newest offset of each of these keys.
        self._open: dict[int, dict[int, str]] = {}
        self._newest: dict[str, int] = {}

    def take(self, batch: Batch, entries: Sequence[Entry]) -> Mapping[int, str]:
        """Go on to the next batch of the log; the keys, by offset, of what it says was aborted."""
        if batch.is_control:
            return self._end(self._open.pop(batch.producer_id, {}), is_aborted=control_type(batch) == ABORT)
        for entry in entries:
            self.aborted.discard(entry.key)
            if batch.is_transactional or entry.key in self._newest:
                self._newest[entry.key] = entry.offset
        if batch.is_transactional:
            found = {entry.offset: entry.key for entry in entries}
            self._open.setdefault(batch.producer_id, {}).update(found)
        return {}

    def _end(self, found: Mapping[int, str], *, is_aborted: bool) -> Mapping[int, str]:
        for offset, key in found.items():
            if self._newest.get(key) == offset:
                del self._newest[key]
                if is_aborted and kind_of(key) not in WANTED:
                    self.aborted.add(key)
        return {offset: key for offset, key in found.items() if is_aborted and kind_of(key) in WANTED}

    def copy(self) -> OpenTransactions:
        """The same, going on apart."""
        other = OpenTransactions()
        other._open = {producer: dict(found) for producer, found in self._open.items()}
        other._newest, other.aborted = dict(self._newest), set(self.aborted)
        return other
