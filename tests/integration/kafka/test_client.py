"""One cluster through the client: who leads what, and who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from kafka.protocol.consumer import OffsetFetchRequest

from isthmus.errors import AnotherCluster, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import Cluster
from testing.brokers.moving import moving_address
from testing.groups import consumers
from testing.records.topics import create

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_metadata(east: LocalCluster, topic: TopicNamer) -> None:
    """Cluster id, brokers, topics with ids and leaders; a topic that is not there is said so and not created."""
    name, missing = topic("there"), topic("missing")
    create(east, name, partitions=3)

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            seen = await client.metadata([name, missing])
            assert seen.cluster_id == east.cluster_id
            assert seen.brokers[1].port == east.broker(1).port
            assert [(p.partition, p.leader) for p in seen.topics[name].partitions] == [(0, 1), (1, 1), (2, 1)]
            assert seen.topics[name].topic_id.int
            assert seen.topics[missing].error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
            everything = (await client.metadata(None)).topics
            assert name in everything
            assert missing not in everything

    asyncio.run(scenario())


def test_any_broker_that_answers(east: LocalCluster) -> None:
    """Bootstrap servers are tried in turn; when none answers, the error says why and what to check."""
    (dead,) = free_ports(1)

    async def scenario() -> None:
        async with Client(
            Cluster(alias="east", bootstrap_servers=(f"127.0.0.1:{dead}", east.bootstrap_servers))
        ) as some:
            assert (await some.metadata()).cluster_id == east.cluster_id
        async with Client(Cluster(alias="east", bootstrap_servers=(f"127.0.0.1:{dead}",))) as none:
            with pytest.raises(Unreachable, match=f"127.0.0.1:{dead}") as told:
                await none.metadata()
            assert "bootstrap_servers" in told.value.hint

    asyncio.run(scenario())


def test_coordinators_are_found_and_remembered(east: LocalCluster, topic: TopicNamer) -> None:
    """A group's requests go to its coordinator; one that was forgotten is found again."""
    group = topic("group")
    consumers.await_coordinator(east.admin_bootstrap_servers, group)
    # As whoever asks first for a coordinator of the other kind has its log created.
    consumers.transactional(east, group)

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            request = OffsetFetchRequest(group_id=group, topics=None, require_stable=False, max_version=7)
            for _ in range(2):
                client.forget_coordinator("group", group)
                assert (await client.coordinator("group", group, request)).error_code == codes.NONE
            assert await client.find_coordinator("transaction", group) == 1

    asyncio.run(scenario())


def test_connections_are_shared_while_one_is_dialled(east: LocalCluster) -> None:
    """Callers at the same time wait for one handshake."""

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            await client.metadata()
            connections = await asyncio.gather(*(client.connection(1) for _ in range(10)))
            assert len(set(connections)) == 1
        assert connections[0].closed

    asyncio.run(scenario())


def test_another_cluster_at_the_same_address_is_a_cluster_that_is_away(east: LocalCluster, west: LocalCluster) -> None:
    """Nothing is asked of it, whoever compares the ids: its brokers where one of them is meant, we where any will do.
    The error has both ids. When the address leads home again, all goes on.
    """

    async def scenario() -> None:
        with moving_address(east) as address:
            async with Client(address.cluster) as client:
                assert (await client.metadata()).cluster_id == east.cluster_id
                before = await client.connection(1)
                address.move(west)
                for ask in (client.metadata, lambda: client.connection(1), lambda: describe_cluster(client)):
                    with pytest.raises(Unreachable):
                        await client.broker(1, OffsetFetchRequest(group_id="g", topics=None, max_version=7))
                    assert before.closed
                    with pytest.raises(AnotherCluster, match=f"{west.cluster_id} answers.*{east.cluster_id}"):
                        await ask()
                address.return_home()
                assert (await describe_cluster(client)).cluster_id == east.cluster_id
            # Who knows the id does not even begin, and asks nothing else of it.
            async with Client(replace(address.cluster, cluster_id="another")) as client:
                with pytest.raises(AnotherCluster, match=f"{east.cluster_id} answers, and east is another"):
                    await client.find_coordinator("group", "any")

    asyncio.run(scenario())
