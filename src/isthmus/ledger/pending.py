"""Which of the records that were read count yet, as their transactions are open or were aborted.

The ledger is read past what is not committed, so that nobody waits for a writer that stopped in the middle. The
coordinator aborts what such a writer left open, and brokers drop its records, at some later time, from the log.

What operators want counts from its commit on, and never if it was aborted. All else counts as soon as it was written,
aborted or not: a task may have acted on it, and whoever takes over has to see what the task saw. So whoever takes over
writes it again: what brokers drop one day would give way to what was said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        self._open: dict[int, list[Entry]] = {}
        # The newest offset of what was written, of keys of open transactions; and of what operators want that counts.
        self._newest: dict[str, int] = {}
        self._wanted: dict[str, int] = {}

    @property
    def held(self) -> frozenset[int]:
        """The producer ids of open transactions with something in them that counts from its commit on."""
        return frozenset(each for each, found in self._open.items() if any(map(_is_wanted, found)))

    def take(self, batch: Batch, entries: Sequence[Entry]) -> list[Entry]:
        """Go on to the next batch of the log; what counts from there on, of this batch or of earlier ones."""
        if batch.is_control:
            return self._end(self._open.pop(batch.producer_id, []), is_aborted=control_type(batch) == ABORT)
        for entry in entries:
            self.aborted.discard(entry.key)
            if batch.is_transactional or entry.key in self._newest:
                self._newest[entry.key] = entry.offset
        if not batch.is_transactional:
            return self._counting(entries)
        self._open.setdefault(batch.producer_id, []).extend(entries)
        return [entry for entry in entries if not _is_wanted(entry)]

    def _end(self, found: Sequence[Entry], *, is_aborted: bool) -> list[Entry]:
        for entry in found:
            if self._newest.get(entry.key) == entry.offset:
                del self._newest[entry.key]
                if is_aborted and not _is_wanted(entry):
                    self.aborted.add(entry.key)
        return [] if is_aborted else self._counting(filter(_is_wanted, found))

    def _counting(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those of the entries that nothing which counts already is newer than."""
        counting: list[Entry] = []
        for entry in entries:
            if not _is_wanted(entry):
                counting.append(entry)
            elif self._wanted.get(entry.key, -1) < entry.offset:
                self._wanted[entry.key] = entry.offset
                counting.append(entry)
        return counting

    def copy(self) -> OpenTransactions:
        """The same, going on apart."""
        other = OpenTransactions()
        other._open = {producer: list(found) for producer, found in self._open.items()}
        other._newest, other._wanted, other.aborted = dict(self._newest), dict(self._wanted), set(self.aborted)
        return other


def _is_wanted(entry: Entry) -> bool:
    return kind_of(entry.key) in WANTED
