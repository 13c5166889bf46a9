"""What a target's brokers take upon themselves is asked of the brokers, and so is which topics it concerns."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.topics.checks.safeguards import Safeguards, safeguards, transactional_topics
from testing.brokers.hanging import trusting
from testing.records import topics
from testing.records.transactions import TransactionalProducer, end_without_data

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_brokers_tell_whether_they_verify_transactions(west: LocalCluster) -> None:
    """Kafka's defaults are a day of memory, and verification, until that is turned off."""

    async def ask() -> Safeguards:
        async with Client(west.cluster()) as client:
            return await safeguards(client)

    assert asyncio.run(ask()) == Safeguards(expiration_ms=86_400_000, verifies_transactions=True)
    with trusting(west):
        assert not asyncio.run(ask()).verifies_transactions


def test_topics_with_transactions_are_told_from_others(east: LocalCluster, topic: TopicNamer) -> None:
    """Open and ended transactions both count; records of an idempotent producer do not."""
    plain, ended, begun = (topic(stem) for stem in ("plain", "ended", "begun"))
    names = (plain, ended, begun)
    some = topics.some(3, random.Random(1))
    for name in names:
        topics.create(east, name, partitions=2)
        topics.produce(east, name, some, enable_idempotence=True)
    end_without_data(east, ended, commit=True, partition=1)
    producer = TransactionalProducer(east, f"{begun}-id")
    producer.send(begun, some)

    async def ask() -> frozenset[str]:
        async with Client(east.cluster()) as client:
            return await transactional_topics(client, await client.metadata(names), names)

    assert asyncio.run(ask()) == {ended, begun}
    producer.end(commit=False)
