"""How far a lane got that nobody wrote down: what its target holds of it, held against its source. Pure.

The ledger says how far a mapped lane was some time ago, and that stays true. What the target's log holds of ours behind
that tells the rest: how many records were appended since, by their sequences, and which they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from isthmus.lane.mapped.transit import Transit
from isthmus.lane.rebatch import Record
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from isthmus.wire.batch import SEQUENCE_MASK, Batch


class Arrived(NamedTuple):
    """Records of ours that the target's log holds: `length` from `ordinal` on, at `target_begin` and behind."""

    ordinal: int
    target_begin: int
    length: int

    @property
    def ordinal_end(self) -> int:
        return self.ordinal + self.length

    def is_aligned(self, cursor: Cursor) -> bool:
        """Whether the last record before a cursor lies here where the cursor has it."""
        last = cursor.target_offset - 1 - self.target_begin
        return 0 <= last < self.length and self.ordinal + last == cursor.ordinal - 1

    def since(self, ordinal: int) -> Arrived:
        """What is here of the records from an ordinal on: after a lane went back a batch may begin before it."""
        skipped = max(ordinal - self.ordinal, 0)
        return Arrived(self.ordinal + skipped, self.target_begin + skipped, self.length - skipped)


class Held(NamedTuple):
    """A record of ours that the target holds, with its ordinal; its offset is that at the target."""

    ordinal: int
    record: Record


class Sourced(NamedTuple):
    """A record of the source as it is copied, and the leader epoch in which the source got it."""

    record: Record
    epoch: int


class Recount(NamedTuple):
    """How far a lane was found to be, and where went what nobody had written down."""

    cursor: Cursor
    ranges: list[MappedRange]


def ordinal_of(sequence: int, near: int) -> int:
    """The ordinal that has this sequence, of those that have it the one nearest to `near`."""
    half = (SEQUENCE_MASK + 1) // 2
    return near + ((sequence - near + half) & SEQUENCE_MASK) - half


def ours(batch: Batch, producer_id: int, cursor: Cursor) -> Arrived | None:
    """What a batch of the target holds of a lane, `None` if it is of others."""
    if batch.producer_id != producer_id or batch.is_control or batch.base_sequence < 0:
        return None
    ordinal = ordinal_of(batch.base_sequence, cursor.ordinal)
    return Arrived(ordinal, batch.base_offset, batch.offset_end - batch.base_offset)


def counted_anew(read: Transit, arrived: Iterable[Arrived]) -> Recount:
    """What the target holds of ours, by counting: for sources that still have all that was copied.

    `read` was at the cursor and has read the source from there on, as far as anything arrived. What arrived comes in
    the order of ordinals, without a gap.
    """
    for one in arrived:
        read.appended(one.length, one.target_begin)
    return Recount(read.cursor, read.ranges)


def compared_anew(cursor: Cursor, held: Sequence[Held], source: Sequence[Sourced], *, deleted: int) -> Recount:
    """What the target holds of ours, by comparing: for sources that may have lost what was copied.

    `source` is what there is from the cursor's offset on, at least as many as were copied where there are so many. Up
    to `deleted` offsets at its beginning were deleted since, and anything may have been compacted away, at the target
    too: that shows in its ordinals. What the source lost is passed over; a record that stands there twice alike, next
    to its like, is taken for the same.
    """
    places: dict[_Content, deque[int]] = {}
    for place, (record, _) in enumerate(source):
        places.setdefault(_content(record), deque()).append(place)
    skipped = _deleted_of(held, source, deleted)
    ranges: list[MappedRange] = []
    source_offset, position, epoch = cursor.source_offset + skipped, 0, -1
    unseen, ordinal = 0, held[skipped].ordinal if skipped else cursor.ordinal
    for one in held[skipped:]:
        # So many that the target lost the source may have still, before this one.
        unseen += one.ordinal - ordinal
        ordinal = one.ordinal + 1
        same = _next_of(places.get(_content(one.record)), position)
        if same is None or same > position + unseen:
            # It had an offset of its own, at or behind this one.
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
    """A record without its offset, to be found by."""
    return (*record[1:4], tuple(record.headers))


def _next_of(places: deque[int] | None, begin: int) -> int | None:
    """The first of ascending places that is not before `begin`; those before it are dropped."""
    while places and places[0] < begin:
        places.popleft()
    return places[0] if places else None


def _deleted_of(held: Sequence[Held], source: Sequence[Sourced], deleted: int) -> int:
    """How many of the first held records the source has deleted, if what is left follows there without a gap.

    Where records are alike it is as many as can be: what may have been copied twice is better than what was not. So
    the shortest end of what is held is looked for that the source begins with, by the borders of both (Knuth, Morris
    and Pratt): in one pass, however many are alike.
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
    """Of each beginning, how long the longest shorter beginning is that it ends with."""
    borders = [0] * len(there)
    length = 0
    for place in range(1, len(there)):
        while length and there[place] != there[length]:
            length = borders[length - 1]
        length += there[place] == there[length]
        borders[place] = length
    return borders
