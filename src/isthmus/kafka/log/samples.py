"""Reads some committed records of one partition, to be looked at."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from aiokafka.errors import KafkaError

from isthmus.kafka.batches.records import StoredRecord, records_in
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange, unreadable_error

_FETCH_BYTES: Final = 1 << 20
_WIDER: Final = 8
_LOOKS_MAX: Final = 12


async def first_records(client: Client, span: OffsetRange, most: int) -> list[StoredRecord]:
    """Return the first records of a range that consumers at read_committed see, at most so many.

    :raises ClusterError: The partition cannot be read, or its bytes are no records.
    """
    found: list[StoredRecord] = []
    reader = LogReader(client, fetch_bytes=_FETCH_BYTES)
    async with aclosing(reader.read(span)) as answers:
        async for stored in answers:
            for batch, is_aborted in stored:
                if batch.is_control or is_aborted:
                    continue
                try:
                    records = records_in(batch)
                except (ValueError, KafkaError) as error:
                    where = f"offset {batch.base_offset} of {span}"
                    raise unreadable_error(client.cluster.alias, where, error) from error
                found += [_copy_record(each) for each in records if span.offset_begin <= each.offset < span.offset_end]
            if len(found) >= most:
                break
    return found[:most]


async def newest_records(client: Client, span: OffsetRange, most: int) -> list[StoredRecord]:
    """Return the last records of a range that consumers at read_committed see, at most so many, the oldest first. If
    they are rare (control records, compaction), it looks back so far as twelve steps reach, each wider than the last.

    :raises ClusterError: The partition cannot be read, or its bytes are no records.
    """
    found: list[StoredRecord] = []
    end, step = span.offset_end, most
    for _ in range(_LOOKS_MAX):
        begin = max(end - step, span.offset_begin)
        part = span._replace(offset_begin=begin, offset_end=end)
        found = [*await first_records(client, part, part.offset_end - part.offset_begin), *found]
        if len(found) >= most or begin == span.offset_begin:
            break
        end, step = begin, step * _WIDER
    return found[-most:]


def _copy_record(record: StoredRecord) -> StoredRecord:
    """Return a record of either decoder as a value of its own."""
    return StoredRecord(
        record.offset,
        -1 if record.timestamp is None else record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        list(record.headers),
    )
