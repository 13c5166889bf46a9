"""Reading and cutting real logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest

from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.slices import slices
from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration

RECORDS: Final = 400
BATCH: Final = 20


def fill(cluster: LocalCluster, name: str, *, value_bytes: int = 100) -> None:
    given = [topics.Given(b"k", b"v" * value_bytes, [], topics.SEPTEMBER + n) for n in range(RECORDS)]
    topics.produce(cluster, name, given, batch_num_messages=BATCH)


async def batches(client: Client, span: OffsetRange, **reader: Any) -> list[Batch]:
    return [
        item.batch async for found in LogReader(client, **{"stall_s": TERM_S} | reader).read(span) for item in found
    ]


def test_range_begins_and_ends_amidst_batches(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """All batches that hold offsets of the range are read, whole and once, and no others."""
    name = topic("amidst")
    topics.create(east, name)
    fill(east, name)

    async def scenario() -> tuple[list[Batch], list[Batch]]:
        async with Client(east.cluster()) as client:
            whole = await batches(client, OffsetRange(name, 0, 0, RECORDS))
            inside = [whole[3], whole[4], whole[5]]
            part = OffsetRange(name, 0, inside[0].base_offset + 1, inside[-1].base_offset + 1)
            return inside, await batches(client, part)

    expected, found = asyncio.run(scenario())

    assert [(batch.base_offset, bytes(batch.view)) for batch in found] == [
        (batch.base_offset, bytes(batch.view)) for batch in expected
    ]


def test_large_log_takes_many_answers(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """Batches that an answer cuts off come whole with the next, also those larger than an answer may be."""
    name = topic("answers")
    topics.create(east, name)
    fill(east, name, value_bytes=2000)

    async def scenario() -> list[Batch]:
        async with Client(east.cluster()) as client:
            return await batches(client, OffsetRange(name, 0, 0, RECORDS), fetch_bytes=30_000)

    found = asyncio.run(scenario())

    assert all(one.offset_end == other.base_offset for one, other in pairwise(found))
    assert (found[0].base_offset, found[-1].offset_end) == (0, RECORDS)


def test_what_retention_took_is_left_out(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """Reading begins where the log begins by now; a range that is gone altogether is empty."""
    name = topic("retention")
    topics.create(east, name)
    fill(east, name)
    topics.delete_records(east, name, 200)

    async def scenario() -> tuple[list[Batch], list[Batch], list[Batch]]:
        async with Client(east.cluster()) as client:
            return (
                await batches(client, OffsetRange(name, 0, 0, RECORDS)),
                await batches(client, OffsetRange(name, 0, 0, 100)),
                await batches(client, OffsetRange(name, 0, RECORDS, RECORDS)),
            )

    rest, gone, empty = asyncio.run(scenario())

    assert rest[0].base_offset <= 200 < rest[0].offset_end
    assert rest[-1].offset_end == RECORDS
    assert gone == empty == []


def test_topic_that_does_not_exist_is_an_error(east: LocalCluster) -> None:
    """It may be a leader's delay, so it takes a while to be sure."""

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            await batches(client, OffsetRange("nowhere", 0, 0, 10), stall_s=0.5)

    with pytest.raises(ClusterError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        asyncio.run(scenario())


@pytest.mark.parametrize("slice_bytes", [1, 5_000, 20_000, 1 << 30])
def test_slices_lie_along_batches(east: LocalCluster, topic: Callable[[str], str], slice_bytes: int) -> None:
    """Slices cover the range without gap, begin where batches begin, and are about as large as asked for."""
    name = topic("slices")
    topics.create(east, name)
    fill(east, name)
    topics.delete_records(east, name, 50)

    async def scenario() -> tuple[list[Batch], list[OffsetRange], list[int]]:
        async with Client(east.cluster()) as client:
            span = OffsetRange(name, 0, 50, RECORDS)
            cut, nothing = await slices(
                LogReader(client), [span, OffsetRange(name, 0, 50, 50)], slice_bytes=slice_bytes
            )
            assert nothing == []
            return await batches(client, span), [part.span for part in cut], [part.size_bytes for part in cut]

    stored, spans, sizes = asyncio.run(scenario())

    assert [offset for span in spans for offset in range(*span[2:])] == list(range(50, RECORDS))
    assert {span.offset_begin for span in spans[1:]} <= {batch.base_offset for batch in stored}
    total = sum(batch.size_bytes for batch in stored)
    assert 0.5 * total < sum(sizes) < 2 * total
    if slice_bytes == 1:
        assert len(spans) == len(stored)
    if slice_bytes == 1 << 30:
        assert len(spans) == 1


def test_leader_that_is_killed_is_followed(east3: LocalCluster, topic: Callable[[str], str]) -> None:
    """When the leader goes in the middle of a read, the rest is read from the next one, nothing twice."""
    name = topic("leader")
    topics.create(east3, name, replicas=3)
    fill(east3, name)

    async def scenario() -> list[Batch]:
        found: list[Batch] = []
        async with Client(east3.cluster()) as client:
            async for part in LogReader(client, fetch_bytes=5_000).read(OffsetRange(name, 0, 0, RECORDS)):
                if not found:
                    leader = (await client.metadata([name])).topics[name].partitions[0].leader
                    east3.broker(leader).kill()
                found += (item.batch for item in part)
        return found

    try:
        found = asyncio.run(scenario())
    finally:
        for broker in east3.brokers:
            if broker.state != "running":
                broker.start()
        east3.wait_until_ready()

    assert all(one.offset_end == other.base_offset for one, other in pairwise(found))
    assert (found[0].base_offset, found[-1].offset_end) == (0, RECORDS)
