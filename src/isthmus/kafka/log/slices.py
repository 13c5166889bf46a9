"""Cuts logs into slices of about equal size, along the borders of batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from isthmus.kafka.log.reading import LogReader, OffsetRange

SLICE_BYTES: Final = 64 << 20
_PARTITIONS_AT_ONCE: Final = 64


class Slice(NamedTuple):
    """A part of a partition's log and its approximate size in bytes."""

    span: OffsetRange
    size_bytes: int


async def slices(
    reader: LogReader, spans: Iterable[OffsetRange], *, slice_bytes: int = SLICE_BYTES
) -> list[list[Slice]]:
    """Cut each range into slices of about `slice_bytes` that together cover it; empty ranges into none.

    Kafka does not report the bytes between two offsets, so one batch is fetched at every
    border: it shows the density of the log there, and where a batch begins.

    :raises ClusterError: A partition cannot be read.
    """
    free = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

    async def cut(span: OffsetRange) -> list[Slice]:
        async with free:
            return await _cut(reader, span, slice_bytes)

    return await asyncio.gather(*(cut(span) for span in spans))


async def _cut(reader: LogReader, span: OffsetRange, slice_bytes: int) -> list[Slice]:
    found: list[Slice] = []
    rest = span
    sampled_bytes = sampled_offsets = 0
    while rest.offset_begin < rest.offset_end:
        batch = await reader.first_batch(rest)
        if batch is None:
            found.append(Slice(rest, 0))
            break
        sampled_bytes += batch.size_bytes
        sampled_offsets += batch.offset_end - batch.base_offset
        goal = rest.offset_begin + max(slice_bytes * sampled_offsets // sampled_bytes, 1)
        border = await _border(reader, rest, goal)
        offsets = border - rest.offset_begin
        found.append(Slice(rest._replace(offset_end=border), offsets * sampled_bytes // sampled_offsets))
        rest = rest._replace(offset_begin=border)
    return found


async def _border(reader: LogReader, rest: OffsetRange, goal: int) -> int:
    """Find where a batch begins, at or before `goal` but behind the beginning of `rest`; or its end."""
    if goal >= rest.offset_end:
        return rest.offset_end
    batch = await reader.first_batch(rest._replace(offset_begin=goal))
    if batch is None:
        return rest.offset_end
    border = batch.base_offset if batch.base_offset > rest.offset_begin else batch.offset_end
    return min(border, rest.offset_end)
