"""Positions of groups, as one broker tells them or whoever is taken for the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from isthmus.kafka.admin.brokers import every_broker
from isthmus.kafka.client import Client
from isthmus.kafka.groups.coordinators import find_coordinators
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.model.kafka.group import Committed
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration


def test_a_broker_that_is_named_is_the_only_one_that_is_asked(east3: LocalCluster, topic: Callable[[str], str]) -> None:
    """The coordinator tells the positions, and the others that they are none."""
    name = topic("positions")
    topics.create(east3, name, replicas=3)
    reader = Consumer({"bootstrap.servers": east3.bootstrap_servers, "group.id": name, "enable.auto.commit": False})
    reader.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    reader.close()

    async def story() -> None:
        async with asyncio.timeout(TERM_S), Client(east3.cluster()) as client:
            coordinator = (await find_coordinators(client, [name]))[name].value
            for node in await every_broker(client):
                found: CommittedOffsets[str] = await committed_offsets(client, [name], require_stable=True, node=node)
                if node == coordinator:
                    assert found.values[name][name, 0] == Committed(7)
                else:
                    assert (found.values, list(found.errors)) == ({}, [name])

    asyncio.run(story())
