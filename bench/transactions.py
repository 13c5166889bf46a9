"""What it costs that transactions stay whole: an engine copies committed ones of several sizes, either way.

    python -m bench.transactions [--repeat N]

Two single-broker clusters without verification of transactions; four partitions, records of 256 bytes in batches of up
to 500. Transactions follow one another in a partition. The engine runs in this process, with nothing of Spark in it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from statistics import median
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import WriteTxnMarkersRequest
from rich import box
from rich.console import Console
from rich.table import Table

from bench.payload import Shape, templates
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.engine import Engine
from isthmus.errors import InvariantError
from isthmus.kafka import codes
from isthmus.kafka.admin.changes import NewTopic, await_leaders, create_topics
from isthmus.kafka.batches.batch import HEADER_BYTES, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.local import LocalCluster
from isthmus.model.kafka.rights import on_topic
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.topics.aborted import VERIFICATION

_PARTITIONS: Final = 4
_BATCH_RECORDS: Final = 500
_SIZES: Final = {1: 2_000, 100: 1_000, 10_000: 50}
"""By the records of a transaction: how many of them a partition gets."""
_PRODUCER: Final = 1_000_000
_HEAP_MB: Final = 768
_DIGITS: Final = (0, 0, 2, 1)
_TERM_S: Final = 600.0
_LOOK_S: Final = 0.01
_DAY_MS: Final = 86_400_000


class Measured(NamedTuple):
    """One copy."""

    records_per_s: float
    transactions_per_s: float
    cpu_s_per_million: float
    load: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.transactions", description="What whole transactions cost.")
    parser.add_argument("--repeat", type=int, default=3, help="how often; medians are shown (default 3)")
    given = parser.parse_args()
    table = Table(title=f"transactions (medians of {given.repeat})", box=box.SIMPLE_HEAD, title_justify="left")
    for title in ("records each", "visibility", "records/s", "transactions/s", "CPU s per million records", "load"):
        table.add_column(title, justify="right")
    properties = {VERIFICATION: "false"}
    with (
        LocalCluster.start("source", brokers=1, heap_mb=_HEAP_MB, properties=properties, fast_start=False) as source,
        LocalCluster.start("target", brokers=1, heap_mb=_HEAP_MB, properties=properties, fast_start=False) as target,
    ):
        for size, count in _SIZES.items():
            runs = asyncio.run(_compared(source, target, size, count, given.repeat))
            for is_whole, found in runs.items():
                columns = zip(*found, strict=True)
                figures = [f"{median(each):,.{digits}f}" for each, digits in zip(columns, _DIGITS, strict=True)]
                table.add_row(f"{size:,}", "whole" if is_whole else "record", *figures)
    Console(width=120).print(table)
    return 0


async def _compared(
    source: LocalCluster, target: LocalCluster, size: int, count: int, repeat: int
) -> dict[bool, list[Measured]]:
    """Copies of transactions of one size, in turn."""
    found: dict[bool, list[Measured]] = {False: [], True: []}
    async with Client(source.cluster()) as here, Client(target.cluster()) as there:
        topic = f"transactions-{size}"
        await _create(here, topic)
        await _fill(here, topic, size, count)
        for turn in range(repeat + 1):
            for is_whole in (False, True):
                into = f"{topic}-{turn}-{is_whole}".lower()
                await _create(there, into)
                measured = await _copied(here, there, topic, into, size * count * _PARTITIONS, is_whole=is_whole)
                # The first round warms the brokers up.
                if turn:
                    found[is_whole].append(measured._replace(transactions_per_s=measured.records_per_s / size))
    return found


async def _create(client: Client, topic: str) -> None:
    new = NewTopic(name=topic, partition_count=_PARTITIONS, replication_factor=1, configs={})
    for error in (await create_topics(client, [new])).errors.values():
        raise error
    if topic not in await await_leaders(client, {topic: _PARTITIONS}):
        raise InvariantError(f"{topic} has no leaders")


async def _fill(client: Client, topic: str, size: int, count: int) -> None:
    """Transactions under ids that no coordinator knows: a commit costs one request."""
    found = (await client.metadata([topic])).topics[topic]
    connection = await client.connection(found.partitions[0].leader)
    batch_records = min(size, _BATCH_RECORDS)
    ready = templates(Shape(codec="none", batch_records=batch_records))
    sequence = 0
    for number in range(count):
        for part in range(size // batch_records):
            batch = ready[(number + part) % len(ready)]
            appends = [
                produce.Append(
                    topic,
                    found.topic_id,
                    partition,
                    stamp(batch, _PRODUCER + partition, 0, sequence, transactional=True),
                    batch.view[HEADER_BYTES:],
                )
                for partition in range(_PARTITIONS)
            ]
            for append in appends:
                # A request takes one producer of transactions.
                await _post(connection, append)
            sequence += batch_records
        await _commit(connection, topic)


async def _post(connection: Connection, append: produce.Append) -> None:
    version = produce.version_for(connection.api_versions, is_transactional=True)
    while True:
        answers, _ = await produce.post(
            connection, [append], version=version, timeout_ms=30_000, timeout_s=60.0, transactional_id="bench"
        )
        # Metadata is ahead of the leaders, which refuse for a moment yet.
        if not any(answer.error_code in codes.LEADER_MOVED for answer in answers.values()):
            break
        await asyncio.sleep(_LOOK_S)
    for answer in answers.values():
        codes.raise_for_code(answer.error_code, "filling the source", on_topic("WRITE"), cluster="source")


async def _commit(connection: Connection, topic: str) -> None:
    marker: Any = WriteTxnMarkersRequest.WritableTxnMarker
    markers = [
        marker(
            producer_id=_PRODUCER + partition,
            producer_epoch=0,
            transaction_result=True,
            topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=0,
            transaction_version=0,
        )
        for partition in range(_PARTITIONS)
    ]
    await connection.call(WriteTxnMarkersRequest(markers=markers), timeout_s=60.0)


async def _copied(source: Client, target: Client, topic: str, into: str, records: int, *, is_whole: bool) -> Measured:
    """Copy a topic from its beginning to its end."""
    here, there = (await source.metadata([topic])).topics[topic], (await target.metadata([into])).topics[into]
    ends = {key[1]: log.end for key, log in (await log_ranges(source, [(topic, p) for p in range(4)])).values.items()}
    producer = ProducerIdentity(
        producer_id=await allocate_producer(target), marker_producer_id=await allocate_producer(target)
    )
    engine = Engine(source=source, target=target, producer=producer, link="bench", expiration_ms=_DAY_MS)
    lanes = [
        Lane(
            source_topic=SourceTopic(topic),
            source_topic_id=here.topic_id,
            target_topic=TargetTopic(into),
            target_topic_id=there.topic_id,
            partition=partition,
            is_whole=is_whole,
        )
        for partition in range(_PARTITIONS)
    ]
    begun, used, deadline = time.monotonic(), time.process_time(), time.monotonic() + _TERM_S
    await engine.start(lanes)
    try:
        while not all(each.position >= ends[each.key.partition] for each in engine.lanes.reports()):
            if time.monotonic() > deadline:
                raise InvariantError(f"not copied in {_TERM_S:g} s: {engine.lanes.reports()}")
            await asyncio.sleep(_LOOK_S)
        taken_s, cpu_s = time.monotonic() - begun, time.process_time() - used
    finally:
        await engine.stop()
    return Measured(records / taken_s, 0.0, cpu_s / records * 1e6, os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
