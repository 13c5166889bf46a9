"""Finds the progress of a mapped lane that was not stored: compares its records at the target with the source. Pure.

The ledger holds an earlier cursor of the lane, which stays true. Our batches behind it in the target's log show the
rest: how many records were appended since, by their sequences, and which they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transit import Transit
from isthmus.kafka.batches.batch import SEQUENCE_MASK, Batch
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange


class Arrived(NamedTuple):
    """`length` records of ours in the target's log, from `ordinal` on, at the offsets from `target_begin` on."""

    ordinal: int
    target_begin: int
    length: int

    @property
    def ordinal_end(self) -> int:
        return self.ordinal + self.length

    def is_aligned(self, cursor: Cursor) -> bool:
        """Whether these records contain the last one before the cursor, at the cursor's target offset."""
        last = cursor.target_offset - 1 - self.target_begin
        return 0 <= last < self.length and self.ordinal + last == cursor.ordinal - 1

    def since(self, ordinal: int) -> Arrived:
        """Only the records from `ordinal` on: after a lane went back a batch may begin before it."""
        skipped = max(ordinal - self.ordinal, 0)
        return Arrived(self.ordinal + skipped, self.target_begin + skipped, self.length - skipped)


class Held(NamedTuple):
    """A record of ours that the target holds, with its ordinal; its offset is that at the target."""

    ordinal: int
    record: Record


class Sourced(NamedTuple):
    """A record of the source as it is copied, and the leader epoch of its batch."""

    record: Record
    epoch: int


class Recount(NamedTuple):
    """The cursor found for a lane, and the ranges that were not stored yet."""

    cursor: Cursor
    ranges: list[MappedRange]


def ordinal_of(sequence: int, near: int) -> int:
    """The ordinal with this sequence that is nearest to `near`."""
    half = (SEQUENCE_MASK + 1) // 2
    return near + ((sequence - near + half) & SEQUENCE_MASK) - half


def ours(batch: Batch, producer_id: int, cursor: Cursor) -> Arrived | None:
    """The records of the lane in a batch of the target, `None` if another producer wrote it."""
    if batch.producer_id != producer_id or batch.is_control or batch.base_sequence < 0:
        return None
    ordinal = ordinal_of(batch.base_sequence, cursor.ordinal)
    return Arrived(ordinal, batch.base_offset, batch.offset_end - batch.base_offset)


def counted_anew(read: Transit, arrived: Iterable[Arrived]) -> Recount:
    """Recount by counting, for sources that still have all copied records.

    `read` has read the source from the cursor on, as far as records have arrived. `arrived` is in the order of
    ordinals, without a gap.
    """
    for one in arrived:
        read.appended(one.length, one.target_begin)
    return Recount(read.cursor, read.ranges)


def compared_anew(cursor: Cursor, held: Sequence[Held], source: Sequence[Sourced], *, deleted: int) -> Recount:
    """Recount by comparing, for sources that may have lost copied records.

    `source` holds the source's records from the cursor's offset on, if possible at least as many as were copied. Up to
    `deleted` offsets at its beginning were deleted since, and any record may have been compacted away, also at the
    target, where the ordinals show it. Records that the source lost are skipped; of equal records next to each other
    the first is taken.
    """
    places: dict[_Content, deque[int]] = {}
    for place, (record, _) in enumerate(source):
        places.setdefault(_content(record), deque()).append(place)
    skipped = _count_deleted(held, source, deleted)
    ranges: list[MappedRange] = []
    source_offset, position, epoch = cursor.source_offset + skipped, 0, -1
    unseen, ordinal = 0, held[skipped].ordinal if skipped else cursor.ordinal
    for one in held[skipped:]:
        # The source may still have so many records before this one that the target lost.
        unseen += one.ordinal - ordinal
        ordinal = one.ordinal + 1
        same = _find_next(places.get(_content(one.record)), position)
        if same is None or same > position + unseen:
            # The source has lost it: it had an offset of its own, at or behind this one.
            source_offset, epoch = source_offset + 1, -1
            continue
        found, epoch = source[same]
        ranges.append(MappedRange(found.offset, one.record.offset, 1))
        source_offset = found.offset + 1
        unseen -= same - position
        position = same + 1
    if not held:
        return Recount(cursor, ranges)
    last = held[-1]
    return Recount(
        replace(
            cursor,
            source_offset=source_offset,
            ordinal=last.ordinal + 1,
            target_offset=last.record.offset + 1,
            source_epoch=epoch,
            left_out=0,
            looked_to=-1,
            looked_epoch=-1,
        ),
        ranges,
    )


_Content = tuple[object, ...]


def _content(record: Record) -> _Content:
    """A record without its offset, as a key."""
    return (*record[1:4], tuple(record.headers))


def _find_next(places: deque[int] | None, begin: int) -> int | None:
    """The first of ascending places that is not before `begin`; those before it are dropped."""
    while places and places[0] < begin:
        places.popleft()
    return places[0] if places else None


def _count_deleted(held: Sequence[Held], source: Sequence[Sourced], deleted: int) -> int:
    """How many of the first held records the source has deleted, if the others follow there without a gap.

    With equal records the largest possible number is taken: copying a record twice is better than not at all. So this
    finds the shortest end of `held` that `source` begins with, by the borders of both (Knuth, Morris and Pratt), in one
    pass however many records are equal.
    """
    there = [_content(record) for record, _ in source[: len(held)]]
    if not there or not deleted:
        return 0
    borders = _borders(there)
    length, lengths = 0, list[int]()
    for one in held:
        content = _content(one.record)
        while length and (length == len(there) or there[length] != content):
            length = borders[length - 1]
        length += there[length] == content
    while length:
        lengths.append(length)
        length = borders[length - 1]
    fitting = [len(held) - length for length in lengths if 0 < len(held) - length <= deleted]
    return max(fitting, default=0)


def _borders(there: Sequence[_Content]) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(there)
    length = 0
    for place in range(1, len(there)):
        while length and there[place] != there[length]:
            length = borders[length - 1]
        length += there[place] == there[length]
        borders[place] = length
    return borders
