"""The last record of a lane that its target holds, where that has lost what it had acknowledged."""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple

from isthmus.cluster.reading import LogReader, OffsetRange
from isthmus.lane.mapped.recount import ours
from isthmus.lane.mapped.transit import Transit
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from isthmus.wire.offsets import PartitionKey


class LastHeld(NamedTuple):
    """The last range that the target holds, as far as it does: the record behind it would have that ordinal."""

    ordinal_end: int
    range: MappedRange


async def last_held(
    log: LogReader, target: PartitionKey, producer_id: int, transit: Transit, end: int
) -> LastHeld | None:
    """What the target holds, before `end`, of the ranges that are known; `None` for nothing of them.

    A log that lost records was cut off at one place, so ranges are searched by halves. A record counts that lies where
    it was put, with its ordinal: what was appended anew since has others there.

    :raises ClusterError: The target does not answer.
    """
    placed = transit.placed_ranges
    low, high = 0, len(placed)
    while low < high:
        middle = (low + high) // 2
        ordinal, one = placed[middle]
        if await _held(log, target, producer_id, transit.cursor, one._replace(length=1), ordinal, end):
            low = middle + 1
        else:
            high = middle
    if not low:
        return None
    ordinal, one = placed[low - 1]
    length = await _held(log, target, producer_id, transit.cursor, one, ordinal, end)
    return LastHeld(ordinal + length, one._replace(length=length))


async def _held(
    log: LogReader, target: PartitionKey, producer_id: int, cursor: Cursor, one: MappedRange, ordinal: int, end: int
) -> int:
    """How many of the first records of a range lie where they were put, the first of them with that ordinal."""
    at, stop = one.target_begin, min(one.target_end, end)
    if at >= stop:
        return 0
    async with aclosing(log.read(OffsetRange(*target, at, stop))) as answers:
        async for stored in answers:
            for batch, _ in stored:
                arrived = ours(batch, producer_id, cursor)
                expected = ordinal + batch.base_offset - one.target_begin
                if batch.base_offset > at or arrived is None or arrived.ordinal != expected:
                    return at - one.target_begin
                at = min(batch.offset_end, stop)
    return at - one.target_begin
