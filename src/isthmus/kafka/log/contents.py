"""Reads the only partition of a topic up to its present end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from isthmus.kafka.batches.records import records_in
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.kafka.mirrormaker_records import KeyedRecord

_PARTITION: Final = 0


async def stored_records(client: Client, topic: str, *, offsets_max: int | None = None) -> AsyncIterator[KeyedRecord]:
    """Yield the records of a topic's only partition up to its present end, at most the last `offsets_max` offsets.

    Records without a key or a value are left out.

    :raises ClusterError: The topic cannot be read, or does not exist.
    """
    async for record in raw_records(client, topic, offsets_max=offsets_max):
        if record.key is not None and record.value is not None:
            yield KeyedRecord(bytes(record.key), bytes(record.value))


async def raw_records(client: Client, topic: str, *, offsets_max: int | None = None) -> AsyncIterator[Any]:
    """Yield the same records as decoded: tombstones too, with timestamps and headers.

    :raises ClusterError: The topic cannot be read, or does not exist.
    """
    key = (topic, _PARTITION)
    found = await log_ranges(client, [key])
    for error in found.errors.values():
        raise error
    log = found.values[key]
    begin = log.start if offsets_max is None else max(log.start, log.end - offsets_max)
    reader = LogReader(client, isolation=READ_UNCOMMITTED)
    async for batches in reader.read(OffsetRange(topic, _PARTITION, begin, log.end)):
        for stored in batches:
            for record in () if stored.batch.is_control else records_in(stored.batch):
                if begin <= record.offset < log.end:
                    yield record
