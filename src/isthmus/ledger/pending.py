"""Decides which records that were read count already, while their transactions are open or after an abort.

The ledger is read past uncommitted records, so that readers do not wait for a writer that stopped in the middle. The
coordinator aborts the transaction that such a writer left open, and brokers drop its records later.

Operators' wishes count from their commit on, and never if aborted. All other documents count as soon as they are
written, aborted or not: a task may have acted on them, and the next controller has to see what the task saw. So that
controller writes them again: once brokers drop the records, older documents would count again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isthmus.kafka.batches.aborted import ABORT, control_type
from isthmus.kafka.batches.batch import Batch
from isthmus.ledger.documents.kinds import WANTED
from isthmus.ledger.records import Entry


class OpenTransactions:
    """The transactions whose end was not read yet, fed batch by batch.

    `aborted` are the keys of documents that count although their transaction was aborted, unless written since.
    """

    def __init__(self) -> None:
        self.aborted: set[str] = set()
        self._open: dict[int, list[Entry]] = {}
        # The newest offsets by key: of documents in open transactions, and of operators' wishes that count.
        self._newest: dict[str, int] = {}
        self._wanted: dict[str, int] = {}

    @property
    def held(self) -> frozenset[int]:
        """The producer ids of open transactions with documents that count from the commit on."""
        return frozenset(each for each, found in self._open.items() if any(map(_is_wanted, found)))

    def take(self, batch: Batch, entries: Sequence[Entry]) -> list[Entry]:
        """Take the next batch of the log. Return the entries that count from now on, of this batch or earlier ones."""
        if batch.is_control:
            return self._end(self._open.pop(batch.producer_id, []), is_aborted=control_type(batch) == ABORT)
        for entry in entries:
            self.aborted.discard(entry.key)
            if batch.is_transactional or entry.key in self._newest:
                self._newest[entry.key] = entry.offset
        if not batch.is_transactional:
            return self._select_newest(entries)
        self._open.setdefault(batch.producer_id, []).extend(entries)
        return [entry for entry in entries if not _is_wanted(entry)]

    def _end(self, found: Sequence[Entry], *, is_aborted: bool) -> list[Entry]:
        for entry in found:
            if self._newest.get(entry.key) == entry.offset:
                del self._newest[entry.key]
                if is_aborted and not _is_wanted(entry):
                    self.aborted.add(entry.key)
        return [] if is_aborted else self._select_newest(filter(_is_wanted, found))

    def _select_newest(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries that are newer than those that count already."""
        counting: list[Entry] = []
        for entry in entries:
            if not _is_wanted(entry):
                counting.append(entry)
            elif self._wanted.get(entry.key, -1) < entry.offset:
                self._wanted[entry.key] = entry.offset
                counting.append(entry)
        return counting

    def copy(self) -> OpenTransactions:
        """Return an independent copy."""
        other = OpenTransactions()
        other._open = {producer: list(found) for producer, found in self._open.items()}
        other._newest, other._wanted, other.aborted = dict(self._newest), dict(self._wanted), set(self.aborted)
        return other


def _is_wanted(entry: Entry) -> bool:
    return entry.kind in WANTED
