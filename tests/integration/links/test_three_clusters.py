"""Disaster recovery with three clusters, as KIP-986 tells it: A is lost, B takes over, C and then A follow B."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.promotion import Promotion
from isthmus.model.links.recovery import Recovery
from isthmus.model.namespace import NamespaceMap
from isthmus.recovery.replaying import ReplayedPartition
from testing.groups import consumers
from testing.groups.carrying import records
from testing.links.promoting import written
from testing.links.reserving import admin_of
from testing.records import topics
from testing.runs.declaring import cut
from testing.runs.recovering import log_of, topic_id
from testing.runs.running import ends, running
from testing.verbs import AsyncLinkOperations, LinkRecoverer, Promoter

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
A, B, C = "east", "west", "guarded"


@pytest.fixture
def zones(east: LocalCluster, west: LocalCluster, guarded: LocalCluster) -> Configuration:
    """A file with the clusters of three zones, and no link."""
    return Configuration(clusters=(east.cluster(), west.cluster(), admin_of(guarded)), links=())


@pytest.fixture
def story(topic: Namer, zones: Configuration) -> Iterator[str]:
    """What all names of the story begin with; its links are deleted in the end, so that no other test runs them."""
    name = topic("story")
    yield name
    for way in ("a-b", "a-c", "b-c", "b-a"):
        try:
            Fabric(zones).declarations.delete(f"{name}.{way}")
        except ConfigError:
            continue


class Zones:
    """The operator of the three clusters, of whom some can be reached."""

    def __init__(self, configuration: Configuration, story: str, spark: SparkSession) -> None:
        self.configuration = configuration
        self.story = story
        self._spark = spark

    def link(self, way: str, source: str, target: str) -> None:
        """Have topics and groups of one cluster follow those of another."""
        maps = [NamespaceMap.parse(f"{self.story}."), NamespaceMap.parse(f"{self.story}.", "group")]
        Fabric(self.configuration).declarations.create(f"{self.story}.{way}", source=source, target=target, maps=maps)

    def only(self, *ways: str) -> Configuration:
        """The file with some of the declared links."""
        opened = open_fabric(self.configuration, declared=True).configuration
        names = {f"{self.story}.{way}" for way in ways}
        links = tuple(link for link in opened.links if link.name in names)
        assert len(links) == len(ways)
        return replace(opened, links=links)

    async def caught_up(self, *ways: str) -> None:
        """Run links until everything is copied."""
        async with running(self.only(*ways), self._spark, until_caught_up=True) as run:
            await run.task

    async def failover(self, way: str) -> Promotion:
        return await Promoter(configuration=self.configuration, name=f"{self.story}.{way}").failover()

    async def recovered(self, way: str, cluster: LocalCluster, topic: str, wanted: int) -> Recovery:
        """Bring a follower back while its link runs."""
        only = self.only(way)
        recoverer = LinkRecoverer(configuration=only, name=f"{self.story}.{way}", quiet_s=0.3)
        async with running(only, self._spark) as run:
            found = await recoverer.recover()
            await run.until(lambda: _is_at(cluster, topic, wanted))
            # A run that is ended before would find its own position set back by somebody when it goes on.
            await asyncio.to_thread(consumers.await_position, cluster, f"{self.story}.app", (topic, 0), 7)
        return found

    async def replayed(self, way: str, topic: str) -> tuple[ReplayedPartition, ...]:
        return await AsyncLinkOperations(self.only(way), f"{self.story}.{way}").replay(topic)


async def _is_at(cluster: LocalCluster, topic: str, end: int) -> bool:
    return await ends(cluster, topic) == [end]


def test_disaster_recovery_multi_zone_asynchronous(
    east: LocalCluster,
    west: LocalCluster,
    guarded: LocalCluster,
    zones: Configuration,
    story: str,
    spark: SparkSession,
) -> None:
    """A is lost while B lacks what C has: B takes over and says what is missing, C follows B at once where it is not
    ahead and without its own records where it is, and A comes back, follows B, and gives back what only it had.
    """
    orders, payments, app = f"{story}.orders", f"{story}.payments", f"{story}.app"
    operator = Zones(zones, story, spark)
    for each in (orders, payments):
        topics.create(east, each)
        topics.produce(east, each, records(20))
    consumers.commit(east, {app: {(orders, 0): 7}})
    operator.link("a-b", A, B)
    operator.link("a-c", A, C)
    asyncio.run(operator.caught_up("a-b", "a-c"))
    # Readers of other zones keep their caches warm meanwhile.
    assert log_of(west, orders) == log_of(guarded, orders) == log_of(east, orders)
    consumers.await_position(west, app, (orders, 0), 7)

    topics.produce(east, orders, records(5, begin=20))
    asyncio.run(operator.caught_up("a-c"))
    topics.produce(east, orders, records(3, begin=25))
    acknowledged = {each.value for each in log_of(east, orders)}
    consumers.commit(guarded, {f"{story}-cache": {(orders, 0): 24}})
    payments_at_c = asyncio.run(topic_id(guarded, payments))

    alone = Zones(cut(zones, A), story, spark)
    lost = asyncio.run(alone.failover("a-b"))
    assert (lost.is_done, [each.target_end for each in lost.partitions]) == (True, [20, 20])
    assert lost.missing_s is not None
    assert written(west, orders) == 20
    assert written(west, payments) == 20

    assert asyncio.run(alone.failover("a-c")).is_done
    alone.link("b-c", B, C)
    found = asyncio.run(alone.recovered("b-c", guarded, orders, 21))
    (recovered,) = found.topics
    assert (recovered.topic, recovered.partitions[0].shared, recovered.quarantined) == (orders, 20, 5)
    assert {each.group: each.after for each in recovered.positions}[f"{story}-cache"] == 20
    asyncio.run(alone.caught_up("b-c"))
    # The link that fills the topic carries its groups meanwhile, as far as there are records.
    consumers.await_position(guarded, app, (orders, 0), 7)
    for each in (orders, payments):
        assert log_of(guarded, each) == log_of(west, each)
    assert asyncio.run(topic_id(guarded, payments)) == payments_at_c, "what had not diverged was copied anew"

    operator.link("b-a", B, A)
    found = asyncio.run(operator.recovered("b-a", east, orders, 21))
    assert [(each.topic, each.quarantined) for each in found.topics] == [(orders, 8)]
    (replayed,) = asyncio.run(operator.replayed("b-a", orders))
    assert replayed.written == 8
    asyncio.run(operator.caught_up("b-a", "b-c"))
    assert log_of(east, orders) == log_of(guarded, orders) == log_of(west, orders)
    assert {each.value for each in log_of(west, orders)} == acknowledged | {b"mine"}
    assert len(log_of(west, orders)) == len(acknowledged) + 1
