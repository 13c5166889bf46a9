"""Records of a distributor that keeps copy flags in a header: which are copied, and with which flags. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.lane.rebatch import Record
from isthmus.model.copyflags import FlagsHeader, copied, is_to_copy


def flagged(records: Iterable[Record], level: int, header: FlagsHeader) -> list[Record]:
    """The records that a distributor of `level` copies, as it writes them: all else of them stays as it is."""
    found: list[Record] = []
    for record in records:
        flags = header.read(record.headers).flags
        if is_to_copy(flags, level):
            found.append(record._replace(headers=header.written(record.headers, copied(flags, level))))
    return found
