"""Finds timestamps by offset and offsets by timestamp."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.batches.records import records_in
from isthmus.kafka.client import Client
from isthmus.kafka.log.leaders import ask_leaders
from isthmus.kafka.log.listoffsets import PartitionKey, list_offsets
from isthmus.kafka.log.reading import LogReader, OffsetRange, unreadable_error
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import TopicT

_AT_ONCE: Final = 32
_BACK_MAX: Final = 1_000
"""A record is searched up to so many offsets before a position."""
_NO_TIMESTAMP: Final = -1
_ANSWER_BYTES: Final = 16_384
See = Callable[[tuple[TopicT, int], int, int], None]
"""Called with a partition, an offset, and the timestamp (ms) of the record there."""


async def record_timestamps(
    client: Client,
    positions: Mapping[tuple[TopicT, int], int],
    ranges: Mapping[tuple[TopicT, int], LogRange],
    see: See[TopicT] = lambda _key, _offset, _time_ms: None,
) -> dict[tuple[TopicT, int], int]:
    """The timestamp (ms) of the first record at or behind each position, or of the last before it at the end.

    Partitions without records, or with records without timestamps, are left out. Takes a fetch for each partition. For
    each batch read, `see` is called with the newest timestamp and the last offset.

    :raises ClusterError: A partition cannot be read.
    """
    reader = LogReader(client, stall_s=5.0)
    free = asyncio.Semaphore(_AT_ONCE)

    async def find(key: tuple[TopicT, int]) -> int:
        async with free:
            return await _find_timestamp(reader, key, positions[key], ranges[key], see)

    keys = [key for key in positions if key in ranges]
    found = dict(zip(keys, await asyncio.gather(*map(find, keys)), strict=True))
    return {key: timestamp for key, timestamp in found.items() if timestamp != _NO_TIMESTAMP}


async def _find_timestamp(
    reader: LogReader, key: tuple[TopicT, int], position: int, log: LogRange, see: See[TopicT]
) -> int:
    position = min(max(position, log.start), log.stable_end)
    back = 0
    # If only control records follow, the last record is mostly right before them.
    while (
        found := await _find_from(reader, key, position, max(position - back, log.start), log, see)
    ) == _NO_TIMESTAMP:
        if back >= min(position - log.start, _BACK_MAX):
            return await _find_first(reader, key, log)
        back = 2 * back or 1
    return found


async def _find_from(
    reader: LogReader, key: tuple[TopicT, int], position: int, begin: int, log: LogRange, see: See[TopicT]
) -> int:
    """The timestamp of the first record at or behind a position, or of the last before it from `begin` on."""
    latest = _NO_TIMESTAMP
    # Control batches hold no record: read the next batch.
    while begin < log.stable_end:
        batches = await reader.first_batches(OffsetRange(*key, begin, log.stable_end), _ANSWER_BYTES)
        if not batches:
            break
        for each in batches:
            if not each.is_control and each.max_timestamp >= 0:
                see(key, each.offset_end - 1, each.max_timestamp)
        batch = batches[0]
        for offset, timestamp in [] if batch.is_control else _stamps(batch, key):
            if offset >= position:
                return timestamp
            latest = timestamp
        begin = batch.offset_end
    return latest


async def _find_first(reader: LogReader, key: PartitionKey, log: LogRange) -> int:
    """The timestamp of the first record of the log: not too late for any position behind it."""
    batch = await reader.first_batch(OffsetRange(*key, log.start, log.stable_end))
    stamps = [] if batch is None or batch.is_control else _stamps(batch, key)
    return stamps[0][1] if stamps else _NO_TIMESTAMP


def _stamps(batch: Batch, key: PartitionKey) -> list[tuple[int, int]]:
    try:
        return [(r.offset, _NO_TIMESTAMP if r.timestamp is None else r.timestamp) for r in records_in(batch)]
    except Exception as error:
        raise unreadable_error("the source", f"offset {batch.base_offset} of {key[0]}-{key[1]}", error) from error


async def offsets_by_time(
    client: Client, timestamps: Mapping[tuple[TopicT, int], int]
) -> Mapping[tuple[TopicT, int], int]:
    """The first offset with a timestamp (ms) not below the one given, -1 where there is none; one request per leader.

    :raises ClusterError: A partition's leader did not answer.
    """
    ask = partial(list_offsets, timestamp=timestamps)
    return (await ask_leaders(client, timestamps, ask, "looking up a time in")).all()
