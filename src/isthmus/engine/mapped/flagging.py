"""Selects the records that a distributor with copy flags in a header copies, and sets their flags. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.model.copyflags import FlagsHeader, Selection, add_flag, is_to_copy
from isthmus.model.lane import Lane
from isthmus.model.offsets import Cursor


class Flagged(NamedTuple):
    """The copied records. `replaced` are the indexes of records whose flags header was malformed and is replaced."""

    records: list[Record]
    replaced: list[int]


def flagged(records: Iterable[Record], level: int, header: FlagsHeader) -> Flagged:
    """Return the records that a distributor of `level` copies, as it writes them: only their flags change."""
    found = Flagged([], [])
    for record in records:
        flags, is_malformed = header.read(record.headers)
        if is_to_copy(flags, level):
            if is_malformed:
                found.replaced.append(len(found.records))
            found.records.append(record._replace(headers=header.write_flags(record.headers, add_flag(flags, level))))
    return found


def selection_of(lane: Lane, cursor: Cursor) -> tuple[int, FlagsHeader | None]:
    """The level and flags header by which records behind the cursor were selected; the lane's may differ by now."""
    chosen = cursor.selection or Selection(level=lane.level, flags=lane.flags)
    return chosen.level, chosen.flags
