"""Copies of topics as a faulty mirror would leave them: raw bytes, but for what is tampered with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.protocol.producer import ProduceRequest

from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import ABORT, control_type
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, scan, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.local import LocalCluster
from isthmus.model.kafka.rights import on_topic
from testing.records import transactions

_BUILDER_BYTES: Final = 1 << 24


class Record(NamedTuple):
    """A record to be forged."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


MARKER: Final = Record(-1, None, None, ())
"""Stands for a control record instead of a record."""

Tamper = Callable[[int, list[Record]], Sequence[Record]]
"""Gets a batch's base offset and records, and returns what is written instead."""


def honest(_: int, records: list[Record]) -> list[Record]:
    """Change nothing."""
    return records


def forge(
    source: LocalCluster, target: LocalCluster, topic: str, tamper: Tamper = honest, *, anew: bool = False
) -> None:
    """Copy partition 0 of a topic from its log start on, batch by batch.

    Batches that `tamper` leaves alone are copied as bytes, or with `anew` as two batches without compression. Control
    records become empty transactions; what aborted transactions wrote becomes visible.
    """
    asyncio.run(_forge(source, target, topic, tamper, anew))


async def _forge(source: LocalCluster, target: LocalCluster, topic: str, tamper: Tamper, anew: bool) -> None:
    async with Client(source.cluster()) as reading, Client(target.cluster()) as writing:
        log = (await log_ranges(reading, [(topic, 0)])).values[(topic, 0)]
        async for found in LogReader(reading).read(OffsetRange(topic, 0, log.start, log.stable_end)):
            for batch, _ in found:
                if batch.is_control:
                    await _mark(target, topic, commit=control_type(batch) != ABORT)
                    continue
                records = [Record(r.timestamp, r.key, r.value, tuple(r.headers)) for r in decoded(batch)]
                written = list(tamper(batch.base_offset, list(records)))
                if written == records and not anew:
                    await append(writing, topic, stamp(batch, -1, -1, -1) + bytes(batch.view[HEADER_BYTES:]))
                    continue
                half = len(written) // 2 if anew else 0
                await _write(target, writing, topic, written[:half])
                await _write(target, writing, topic, written[half:])


def decoded(batch: Batch) -> Any:
    """The records of a batch, as aiokafka reads them."""
    return DefaultRecordBatch(bytes(batch.view))


async def _write(target: LocalCluster, client: Client, topic: str, written: Sequence[Record]) -> None:
    while written:
        if written[0] == MARKER:
            await _mark(target, topic, commit=True)
            written = written[1:]
        else:
            end = written.index(MARKER) if MARKER in written else len(written)
            await append(client, topic, built(written[:end]))
            written = written[end:]


async def _mark(target: LocalCluster, topic: str, *, commit: bool) -> None:
    await asyncio.to_thread(transactions.end_without_data, target, topic, commit=commit)


def built(records: Sequence[Record], *, same_offset: bool = False) -> bytes:
    """A batch of these records as a producer sends it, or, malformed, with all of them at its first offset."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _BUILDER_BYTES)
    for delta, record in enumerate(records):
        builder.append(0 if same_offset else delta, record.timestamp, record.key, record.value, list(record.headers))
    batch = next(scan(bytes(builder.build())))
    return stamp(batch, -1, -1, -1) + bytes(batch.view[HEADER_BYTES:])


async def append(client: Client, topic: str, records: bytes, *, partition: int = 0) -> None:
    """Append one batch, given as bytes, to a partition."""
    metadata = await client.metadata([topic])
    described = metadata.topics[topic]
    data = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            data(
                name=topic,
                topic_id=described.topic_id,
                partition_data=[data.PartitionProduceData(index=partition, records=records)],
            )
        ],
    )
    answer: Any = await client.broker(described.partitions[partition].leader, request)
    codes.raise_for_code(
        answer.responses[0].partition_responses[0].error_code, f"forging {topic}", on_topic("WRITE", topic)
    )
