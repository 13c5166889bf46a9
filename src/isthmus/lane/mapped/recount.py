"""How far a lane got that nobody wrote down: what its target holds of it, held against its source. Pure.

The ledger says how far a mapped lane was some time ago, and that stays true. What the target's log holds of ours behind
that tells the rest: how many records were appended since, by their sequences, and which they are.
"""

from __future__ import annotations

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


def compared_anew(cursor: Cursor, held: Sequence[Held], source: Sequence[Record], *, deleted: int) -> Recount:
    """What the target holds of ours, by comparing: for sources that may have lost what was copied.

    `source` is what there is from the cursor's offset on, at least as many as were copied where there are so many. Up
    to `deleted` offsets at its beginning were deleted since, and anything may have been compacted away, at the target
    too: that shows in its ordinals. What the source lost is passed over; a record that stands there twice alike, next
    to its like, is taken for the same.
    """
    skipped = _deleted_of(held, source, deleted)
    ranges: list[MappedRange] = []
    source_offset, position = cursor.source_offset + skipped, 0
    unseen, ordinal = 0, held[skipped].ordinal if skipped else cursor.ordinal
    for one in held[skipped:]:
        # So many that the target lost the source may have still, before this one.
        unseen += one.ordinal - ordinal
        ordinal = one.ordinal + 1
        within = range(position, min(position + unseen + 1, len(source)))
        same = next((place for place in within if source[place][1:] == one.record[1:]), None)
        if same is None:
            # It had an offset of its own, at or behind this one.
            source_offset += 1
            continue
        found = source[same]
        ranges.append(MappedRange(found.offset, one.record.offset, 1))
        source_offset = found.offset + 1
        unseen -= same - position
        position = same + 1
    if not held:
        return Recount(cursor, ranges)
    last = held[-1]
    return Recount(
        replace(cursor, source_offset=source_offset, ordinal=last.ordinal + 1, target_offset=last.record.offset + 1),
        ranges,
    )


def are_alike(held: Iterable[Held], source: Sequence[Record], ordinal: int) -> bool:
    """Whether the target holds what the source has now from `ordinal` on; a target may give times of its own."""
    return all(
        one.record[2:] == source[one.ordinal - ordinal][2:] for one in held if one.ordinal < ordinal + len(source)
    )


def _deleted_of(held: Sequence[Held], source: Sequence[Record], deleted: int) -> int:
    """How many of the first held records the source has deleted, if what is left follows there without a gap.

    Where records are alike it is as many as can be: what may have been copied twice is better than what was not.
    """
    there = [record[1:] for record in source[: len(held)]]
    for skipped in range(min(len(held) - 1, deleted), 0, -1):
        if there and held[skipped].record[1:] == there[0]:
            rest = [one.record[1:] for one in held[skipped:]]
            if rest == there[: len(rest)]:
                return skipped
    return 0
