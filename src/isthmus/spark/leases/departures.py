"""The departures of one mapped lane in the ledger: what its lease writes, and what it finds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from isthmus.ledger.documents.transforms import DepartureDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.offsets import Departure, Skips, Stretch

PART_STRETCHES: Final = 500
"""The stretches in one document, which is written again while it grows; about 5 KB."""
_NO_ROUND: Final = -1

Maker = Callable[[int, int, Sequence[Stretch], Sequence[Skips]], DepartureDocument]
"""Makes a document of a part number, a round, stretches and skips."""


class LaneDepartures:
    """What one lease writes of one lane, since it loaded it. Records before the lane's stored cursor are left out.

    `found` are the keys of documents of earlier owners, which are deleted with the first write: until then they may be
    needed. `part` is the number of the first document.
    """

    def __init__(
        self, make: Maker, *, found: Collection[str] = (), part: int = 0, part_stretches: int = PART_STRETCHES
    ) -> None:
        self.part = part
        self._make = make
        self._part_stretches = part_stretches
        self._round = _NO_ROUND
        self._parts: dict[str, DepartureDocument] = {}
        self._open: DepartureDocument | None = None
        self._unwritten: set[str] = set()
        self._obsolete: set[str] = set(found)

    def take(self, departure: Departure, stored_ordinal: int) -> None:
        """Take records that are to be sent; those of an earlier round than the last, and known ones, are ignored.

        The cursor in the ledger is at `stored_ordinal`: all records before it have arrived.
        """
        if departure.round < self._round:
            return
        if departure.round > self._round:
            self._begin_round(departure.round)
        for key in [key for key, each in self._parts.items() if _end(each) <= stored_ordinal]:
            self._drop(key)
        end = -1 if self._open is None else _end(self._open)
        new = [one for one in departure.stretches if one.ordinal_end > end]
        for begin in range(0, len(new), self._part_stretches):
            self._add(new[begin : begin + self._part_stretches], departure.skips, stored_ordinal)

    def _begin_round(self, number: int) -> None:
        self._round = number
        for key in list(self._parts):
            self._drop(key)

    def _drop(self, key: str) -> None:
        del self._parts[key]
        self._unwritten.discard(key)
        self._obsolete.add(key)
        if self._open is not None and self._open.key == key:
            self._open = None

    def _add(self, new: Sequence[Stretch], skips: Sequence[Skips], stored_ordinal: int) -> None:
        kept: list[Stretch] = []
        held: list[Skips] = []
        if self._open is not None:
            kept = [one for one in self._open.stretches if one.ordinal_end > stored_ordinal]
            if len(kept) + len(new) > self._part_stretches:
                kept, self._open = [], None
            else:
                held = [one for one in self._open.skips if one.ordinal >= stored_ordinal]
        if self._open is None:
            self.part += 1
        held += [one for one in skips if new[0].ordinal <= one.ordinal < new[-1].ordinal_end]
        self._open = document = self._make(self.part, self._round, _join([*kept, *new]), held)
        self._parts[document.key] = document
        self._unwritten.add(document.key)

    def changes(self) -> list[LedgerChange]:
        """The changes that have to be in the ledger before the records are sent."""
        written = [each for key, each in self._parts.items() if key in self._unwritten]
        return [*written, *map(Deletion, sorted(self._obsolete))]

    def note_written(self, changes: Collection[LedgerChange]) -> None:
        """Note changes that are in the ledger."""
        for change in changes:
            if isinstance(change, Deletion):
                self._obsolete.discard(change.key)
            elif self._parts.get(change.key) is change:
                self._unwritten.discard(change.key)

    def write_again(self) -> None:
        """Have all documents written again with the next departure, as the ledger was lost."""
        self._unwritten.update(self._parts)


def find_departed(found: Collection[DepartureDocument], ordinal: int) -> Departure:
    """Return what is known of changed records from `ordinal` on, by the documents of a lane."""
    age = max(((each.taken_at, each.round) for each in found), default=None)
    last = [each for each in found if (each.taken_at, each.round) == age]
    stretches = sorted(one for each in last for one in each.stretches if one.ordinal_end > ordinal)
    skips = sorted({one for each in last for one in each.skips if one.ordinal >= ordinal})
    return Departure(_NO_ROUND, tuple(_since(one, ordinal) for one in stretches), tuple(skips))


def _since(one: Stretch, ordinal: int) -> Stretch:
    cut = max(ordinal - one.ordinal, 0)
    return Stretch(one.ordinal + cut, one.source_begin + cut, one.length - cut, one.epoch)


def _join(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Join stretches that follow one another at the source too."""
    joined: list[Stretch] = []
    for one in stretches:
        last = joined[-1] if joined else None
        if last is not None and (last.source_end, last.epoch) == (one.source_begin, one.epoch):
            joined[-1] = last._replace(length=last.length + one.length)
        else:
            joined.append(one)
    return joined


def _end(document: DepartureDocument) -> int:
    return document.stretches[-1].ordinal_end
