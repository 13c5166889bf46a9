"""Groups of a synchronous link, whose clients commit through a gateway that holds their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from isthmus.fabric.fabric import Fabric
from isthmus.groups.positions.carrying import Standing
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from testing.gateways.synchronous import synchronous
from testing.groups import consumers
from testing.groups.carrying import between, carrying, filled

pytestmark = pytest.mark.integration


def committed(consumer: Consumer, position: TopicPartition) -> list[TopicPartition]:
    """What becomes of a commit."""
    return consumer.commit(offsets=[position], asynchronous=False)


def test_a_group_that_was_ahead_at_the_target_follows(
    east: LocalCluster, secured: LocalCluster, topic: Callable[[str], str]
) -> None:
    """As after a failback: where access rules let nobody else commit, the target has what is acknowledged, also what
    lies before; once others are let in there, what they commit stays.
    """
    name = topic("carried")
    filled(east, secured, name, 120)
    consumers.commit(secured, {name: {(name, 0): 100}})
    each = NamespaceMap.parse(name, kind="group")
    link = between(east, secured, [name], [name])
    link = replace(link, mode="sync", groups=replace(link.groups, naming=NamespaceNaming((each,))))
    own = replace(link.target, alias="target")
    namespaces = Fabric(Configuration(clusters=(own,), links=())).cluster("target").namespaces
    namespaces.create(each.target)
    namespaces.enforce(each.target, super_user=True)

    async def scenario(servers: str) -> None:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False})
        async with carrying(link) as running:
            for offset in (50, 40):
                told = await asyncio.to_thread(committed, consumer, TopicPartition(name, 0, offset))
                assert [one.error for one in told] == [None]
                assert await running.offsets(name) == {0: offset}
            await asyncio.to_thread(namespaces.relax, each.target)
            await asyncio.to_thread(consumers.commit, secured, {name: {(name, 0): 110}})
            await asyncio.to_thread(consumers.commit, east, {name: {(name, 0): 60}})
            await running.until(lambda: running.standing(name) is Standing.AHEAD_AT_TARGET)
            assert await running.offsets(name) == {0: 110}
        await asyncio.to_thread(consumer.close)

    with synchronous(east, secured, name) as (front, _):
        asyncio.run(scenario(front.servers))
