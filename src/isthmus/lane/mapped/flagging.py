"""Records of a distributor that keeps copy flags in a header: which are copied, and with which flags. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from isthmus.lane.rebatch import Record
from isthmus.model.copyflags import FlagsHeader, Selection, copied, is_to_copy
from isthmus.model.lane import Lane
from isthmus.model.offsets import Cursor


class Flagged(NamedTuple):
    """What is copied. `replaced` are the places among `records` of those whose header said nothing and is replaced."""

    records: list[Record]
    replaced: list[int]


def flagged(records: Iterable[Record], level: int, header: FlagsHeader) -> Flagged:
    """The records that a distributor of `level` copies, as it writes them: all else of them stays as it is."""
    found = Flagged([], [])
    for record in records:
        flags, is_malformed = header.read(record.headers)
        if is_to_copy(flags, level):
            if is_malformed:
                found.replaced.append(len(found.records))
            found.records.append(record._replace(headers=header.written(record.headers, copied(flags, level))))
    return found


def selection_of(lane: Lane, cursor: Cursor) -> tuple[int, FlagsHeader | None]:
    """By which level and which header of flags was selected what came behind a place: they may be others by now."""
    chosen = cursor.selection or Selection(level=lane.level, flags=lane.flags)
    return chosen.level, chosen.flags
