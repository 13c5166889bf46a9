"""Consumers of a super topic go over to the other cluster and come back, while links copy both ways under prefixes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.naming import MirrorMakerNaming
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern
from isthmus.model.translation import Way
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import configuration_of, link_of, running

pytestmark = pytest.mark.integration

REBALANCING: Final = {
    confluent.KafkaError.REBALANCE_IN_PROGRESS,
    confluent.KafkaError.ILLEGAL_GENERATION,
    confluent.KafkaError.UNKNOWN_MEMBER_ID,
}

PARTITIONS: Final = 2


def way(source: LocalCluster, target: LocalCluster, name: str, group: str, offsets: OffsetPolicy) -> Link:
    """A link that copies the topic under a prefix and carries the group."""
    alias, other = source.cluster().alias, target.cluster().alias
    link = link_of(source.cluster(), target.cluster(), name, name=f"{name}.{alias}")
    naming = MirrorMakerNaming(source_alias=alias, target_alias=other)
    settings = replace(link.topics, include=(TopicPattern.parse(name),), naming=naming, offsets=offsets)
    positions: Way = "identity" if offsets is OffsetPolicy.SAME else "mapped"
    return replace(link, topics=settings, groups=GroupSettings(include=(GroupPattern.parse(group),), way=positions))


def produced(cluster: LocalCluster, name: str, keys: Collection[int]) -> set[bytes]:
    """Records with keys that tell their cluster, spread over the partitions; their keys."""
    found: set[bytes] = set()
    for number in keys:
        key = b"%s-%d" % (cluster.cluster().alias.encode(), number)
        topics.produce(cluster, name, [Given(key, b"v", [], topics.SEPTEMBER)], partition=number % PARTITIONS)
        found.add(key)
    return found


def read(cluster: LocalCluster, group: str, name: str, count: int) -> list[bytes]:
    """So many records of the super topic, by a consumer that commits what it read and leaves."""
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": ",".join(cluster.cluster().bootstrap_servers),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    keys: list[bytes] = []
    deadline = time.monotonic() + TERM_S
    try:
        consumer.subscribe([f"^(.*\\.)?{name}$"])
        while len(keys) < count:
            assert time.monotonic() < deadline, f"{len(keys)} of {count} were read"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                try:
                    # One by one: a topic that is found late has the partitions given out anew.
                    consumer.commit(message=message, asynchronous=False)
                except confluent.KafkaException as error:
                    if error.args[0].code() not in REBALANCING:
                        raise
                    # It is read again.
                    continue
                keys.append(message.key() or b"")
    finally:
        consumer.close()
    return keys


def read_by_java(cluster: LocalCluster, group: str, name: str, count: int) -> list[bytes]:
    """The same by Kafka's own console consumer, which puts back what it fetched beyond `count`."""
    done = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--include", f"(.*\\.)?{name}", "--group", group),
        *("--max-messages", str(count), "--timeout-ms", "300000"),
        *("--command-property", "auto.offset.reset=earliest", "--command-property", "metadata.max.age.ms=500"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.value=false"),
    )
    return [line.encode() for line in done.stdout.split()]


async def positions(cluster: LocalCluster, group: str) -> dict[tuple[str, int], int]:
    """Where the group stands, of the partitions in which it has read anything."""
    admin = AdminClient({"bootstrap.servers": ",".join(cluster.cluster().bootstrap_servers)})
    await asyncio.to_thread(consumers.await_coordinator, cluster.admin_bootstrap_servers, group)
    asked = admin.list_consumer_group_offsets([confluent.ConsumerGroupTopicPartitions(group)])
    found = await asyncio.to_thread(asked[group].result)
    return {(at.topic, at.partition): at.offset for at in found.topic_partitions if at.offset > 0}


async def is_read(cluster: LocalCluster, group: str, count: int) -> bool:
    """Whether so many records lie before the group's positions, over all topics: nothing was deleted."""
    return sum((await positions(cluster, group)).values()) == count


Reader = Callable[[LocalCluster, str, str, int], list[bytes]]


@pytest.mark.parametrize("offsets", [OffsetPolicy.SAME, OffsetPolicy.MAPPED])
@pytest.mark.parametrize(("at_home", "away"), [(read, read_by_java), (read_by_java, read)], ids=["librdkafka", "Java"])
def test_consumers_of_a_super_topic_go_over_and_come_back(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
    offsets: OffsetPolicy,
    at_home: Reader,
    away: Reader,
) -> None:
    """Nothing is skipped and nothing read twice, of what was produced at either side at any time: by a consumer of
    librdkafka and one of Java, whichever of them goes over to the other and comes back.
    """
    name, group = topic(f"flights-{offsets}").replace(".", "-"), topic("readers")
    for cluster in (east, west):
        topics.create(cluster, name, partitions=PARTITIONS)
    links = (way(east, west, name, group, offsets), way(west, east, name, group, offsets))
    written: set[bytes] = set()
    found: list[bytes] = []

    async def scenario() -> None:
        async with running(replace(configuration_of(links[0]), links=links), spark) as run:
            visits = ((east, west, 0, at_home), (west, east, 100, away), (east, west, 200, at_home))
            for here, there, keys, consume in visits:
                for cluster in (east, west):
                    written.update(await asyncio.to_thread(produced, cluster, name, range(keys, keys + 20)))
                # A part is left for whoever comes next, at the other side.
                wanted = len(written) - len(found) - (7 if keys < 200 else 0)
                found.extend(await asyncio.to_thread(consume, here, group, name, wanted))
                at_here = await positions(here, group)
                assert sum(at_here.values()) == len(found), at_here
                await run.until(partial(is_read, there, group, len(found)))
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    twice = {key: count for key, count in Counter(found).items() if count > 1}
    assert (set(found), twice) == (written, {})
