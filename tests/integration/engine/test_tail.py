"""What real brokers say of single offsets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Want
from isthmus.kafka.log.tail import Found, NoBatch, Read, batches_at
from testing.records import topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_a_log_tells_what_it_has(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Batches, and what was deleted; of what lies at its end or behind it, or in another epoch, it cannot tell."""
    name = topic("tail")
    topics.create(mirror.source, name, partitions=6)
    for partition in range(6):
        topics.produce(mirror.source, name, topics.some(10, chance), partition=partition)
    topics.delete_records(mirror.source, name, 5, partition=1)
    topics.delete_records(mirror.source, name, 10, partition=2)

    async def scenario() -> dict[int, Found]:
        async with Client(mirror.source_login) as client:
            known = (await client.metadata([name])).topics[name]
            connection = await client.connection(known.partitions[0].leader)
            offsets = {0: 9, 1: 4, 2: 9, 3: 10, 4: 11}
            wants = {(name, p): Want(known.topic_id, offset, 0, -1) for p, offset in offsets.items()}
            wants[name, 5] = Want(known.topic_id, 9, 7, -1)
            return {key[1]: found for key, found in (await batches_at(connection, wants)).items()}

    found = {partition: each for partition, each in asyncio.run(scenario()).items() if isinstance(each, Read)}

    assert found.keys() == {0, 1, 2}
    batch = found[0].batch
    assert isinstance(batch, Batch)
    assert batch.base_offset <= 9 < batch.offset_end
    assert found[1] == Read(NoBatch.DELETED, 5)
    assert found[2] == Read(NoBatch.DELETED, 10)
