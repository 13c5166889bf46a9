"""Topics described, created and enlarged on real brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from isthmus.errors import BrokerRefused
from isthmus.kafka.admin.changes import NewTopic, add_partitions, await_leaders, create_topics
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.admin.topics import describe_topics, selected_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.local import LocalCluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.selection import TopicPattern, TopicSettings
from testing.patience import TERM_S
from testing.records.topics import await_served

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_created_topic_is_described_as_asked(east: LocalCluster, topic: TopicNamer) -> None:
    """What was asked for on creation is what the description tells, and nothing else is its own."""
    name = topic("created")
    configs = {"retention.ms": "1234567", "cleanup.policy": "compact"}

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            new = NewTopic(name=name, partition_count=3, replication_factor=1, configs=configs)
            outcome = await create_topics(client, [new])
            assert outcome.errors == {}
            assert await await_leaders(client, {name: 3}) == {name}
            metadata = await client.metadata([name])
            described = (await describe_topics(client, metadata.topics.values())).values[name]
            assert described.partition_count == 3
            assert described.replication_factor == 1
            assert described.topic_id == metadata.topics[name].topic_id
            assert described.own_configs == configs
            assert described.value("compression.type") == "producer"
            await alter_topic_configs(client, {name: {"retention.ms": None}})
            deadline = time.monotonic() + TERM_S
            # The controller has taken the change; the broker that is asked hears of it a moment later.
            while described.own_configs == configs and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                described = (await describe_topics(client, metadata.topics.values())).values[name]
            assert described.own_configs == {"cleanup.policy": "compact"}

    asyncio.run(scenario())


def test_validation_tells_what_would_be_created(east: LocalCluster, topic: TopicNamer) -> None:
    """Validating creates nothing, and answers with every configuration the topic would have."""
    name = topic("imagined")

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            new = NewTopic(name=name, partition_count=2, configs={"segment.bytes": "2000000"})
            answer = await create_topics(client, [new], validate_only=True)
            assert answer.values[name]["segment.bytes"].value == "2000000"
            assert answer.values[name]["max.message.bytes"].value == "1048588"
            assert (await client.metadata([name])).topics[name].error_code != 0

    asyncio.run(scenario())


def test_one_refusal_leaves_the_others(east: LocalCluster, topic: TopicNamer) -> None:
    """A topic that cannot be created, enlarged or found does not keep the others from it."""
    good, bad = topic("good"), topic("bad")

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            created = await create_topics(
                client,
                [
                    NewTopic(name=good, partition_count=1),
                    NewTopic(name=bad, partition_count=1, configs={"no.such.config": "1"}),
                ],
            )
            assert list(created.values) == [good]
            assert isinstance(created.errors[bad], BrokerRefused)
            await await_leaders(client, {good: 1})
            enlarged = await add_partitions(client, {good: 4, bad: 4})
            assert enlarged.values == {good: 4}
            assert list(enlarged.errors) == [bad]
            await_served(east, good, partitions=4)
            ranges = await log_ranges(client, [(good, 3), (bad, 0)], timeout_s=1.0)
            assert ranges.values == {(good, 3): LogRange(0, 0, 0)}
            assert list(ranges.errors) == [(bad, 0)]

    asyncio.run(scenario())


def test_filter_selects_among_all_topics(east: LocalCluster, topic: TopicNamer) -> None:
    """Prefixes select what exists; a literal name that does not exist is there with its error."""
    stem = topic("select")
    names = [f"{stem}.a", f"{stem}.b"]
    literal = f"{stem}-literal"

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            await create_topics(client, [NewTopic(name=name, partition_count=1) for name in names])
            await await_leaders(client, dict.fromkeys(names, 1))
            chosen = TopicSettings(
                include=(TopicPattern.parse(f"{stem}.*"), TopicPattern.parse(literal)),
                exclude=(TopicPattern.parse(f"{stem}.b"),),
            )
            found = (await selected_topics(client, chosen)).topics
            assert {name: bool(t.error_code) for name, t in found.items()} == {
                f"{stem}.a": False,
                literal: True,
            }
            outcome = await describe_topics(client, found.values())
            assert list(outcome.values) == [f"{stem}.a"]
            assert list(outcome.errors) == [literal]

    asyncio.run(scenario())
