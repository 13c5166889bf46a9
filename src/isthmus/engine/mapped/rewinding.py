"""Finds the last record of a lane that its target still holds, after the target lost acknowledged records."""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple

from isthmus.engine.mapped.recount import ours
from isthmus.engine.mapped.transit import Transit
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.naming import TargetTopicPartition
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange


class LastHeld(NamedTuple):
    """The last range that the target holds, cut to what it holds; the next record has ordinal `ordinal_end`."""

    ordinal_end: int
    range: MappedRange


async def last_held(
    log: LogReader, target: TargetTopicPartition, producer_id: int, transit: Transit, end: int
) -> LastHeld | None:
    """Find the last known range that the target holds before `end`; `None` if it holds none.

    A log that lost records was truncated at one offset, so this is a binary search. A record counts if it is at its
    offset with its ordinal: records appended since have other ordinals there.

    :raises ClusterError: The target does not answer.
    """
    placed = transit.placed_ranges
    low, high = 0, len(placed)
    while low < high:
        middle = (low + high) // 2
        ordinal, one = placed[middle]
        if await _count_held(log, target, producer_id, transit.cursor, one._replace(length=1), ordinal, end):
            low = middle + 1
        else:
            high = middle
    if not low:
        return None
    ordinal, one = placed[low - 1]
    length = await _count_held(log, target, producer_id, transit.cursor, one, ordinal, end)
    return LastHeld(ordinal + length, one._replace(length=length))


async def _count_held(
    log: LogReader,
    target: TargetTopicPartition,
    producer_id: int,
    cursor: Cursor,
    one: MappedRange,
    ordinal: int,
    end: int,
) -> int:
    """Count the first records of a range that are at their offsets with their ordinals, the first with `ordinal`."""
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
