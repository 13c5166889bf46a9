"""Compacted sources: holes are counted before the first byte, and prefixes leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log.holes import count_holes
from isthmus.local import LocalCluster
from isthmus.memory.claims import Claims
from isthmus.model.lane import LaneState
from isthmus.model.naming import PrefixNaming
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.observation import observe
from isthmus.topics.planning import plan_link
from testing.records import oracle, topics
from testing.records.compaction import Compacted, keys
from testing.records.topics import Given
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_holes_are_counted_where_it_matters(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A hundred holes are found to be a hundred, and decide whether the partition is refused."""
    topics.configure_broker(east, log_cleaner_backoff_ms=100)
    source = Compacted(east, topic("sparse"))
    for _ in range(3):
        source.write(keys("k", 50), enable_idempotence=False)
    source.write([b"tail"], enable_idempotence=False)
    source.await_cleaning(51)

    async def scenario() -> None:
        async with Client(east.cluster()) as client, Client(west.cluster()) as target:
            key = (source.name, 0)
            assert await count_holes(client, key, 0, 151, stop_above=1000) == 100
            assert await count_holes(client, key, 100, 151, stop_above=1000) == 0
            assert await count_holes(client, key, 0, 151, stop_above=10) > 10
            for holes_max, state in ((99, LaneState.REFUSED), (100, LaneState.ACTIVE)):
                link = replace(link_of(east.cluster(), west.cluster(), source.name), compaction_holes_max=holes_max)
                (plan,) = plan_link(await observe(link, client, target), Claims()).topics
                assert plan.partitions[0].state is state

    asyncio.run(scenario())


def test_prefixes_and_records_without_keys_leave_nothing_behind(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """The target gets the policy that filling needs, and afterwards its source's own: when the offsets before the first
    record are deleted, and records from before the source was compacted, which may have no keys, are copied.
    """
    name = topic("prefix")
    topics.create(east, name, cleanup_policy="compact,delete", retention_ms=-1)
    topics.produce(east, name, [Given(b"%d" % n, b"v", [], topics.SEPTEMBER) for n in range(300)])
    topics.delete_records(east, name, 200)
    topics.configure(east, name, cleanup_policy="compact")
    # One that is created, and one that is there and not compacted yet.
    keyless, there = f"{name}.keyless", f"{name}.there"
    for each in (keyless, there):
        topics.create(east, each)
        topics.produce(east, each, [Given(None, b"%d" % n, [], topics.SEPTEMBER) for n in range(50)])
        topics.configure(east, each, cleanup_policy="compact")
    topics.create(west, there)
    topics.configure(west, there, retention_ms=1 << 60)
    link = link_of(east.cluster(), west.cluster(), name, keyless, there, name=name)
    copies = PrefixNaming(target_prefix="copy.")
    others = TopicSettings(include=(TopicPattern.parse(keyless),), naming=copies, offsets=OffsetPolicy.MAPPED)
    mapped = replace(link, name=f"{name}.mapped", topics=others)
    fabric = Fabric(configuration_of(link, mapped), spark=spark)
    planned, *_ = fabric.plan().links[0].topics
    assert (planned.prefix_offsets, planned.lag_records) == (200, 100)
    assert planned.creation is not None
    assert planned.creation.configs["cleanup.policy"] == "delete"
    outcome = fabric.run(until="caught-up")
    assert (outcome.exit_code, outcome.records) == (0, 250)
    assert oracle.assert_same(east, west, name) == 100
    for each in (keyless, there):
        assert oracle.assert_same(east, west, each) == 50

    assert len(oracle.records(west.bootstrap_servers, f"copy.{keyless}")[0]) == 50
    for each in (name, keyless, there, f"copy.{keyless}"):
        assert topics.own_configs(west, each)["cleanup.policy"] == "compact"
    assert not fabric.plan().has_changes
