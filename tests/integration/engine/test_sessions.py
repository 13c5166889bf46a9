"""A source that keeps no fetch sessions: it has no room for one, or knows of none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.link import Limits
from isthmus.model.naming import TargetTopic
from testing.patience import UNFENCED
from testing.records import oracle, topics
from testing.records.trickle import trickling
from testing.runs.mirror import Mirror, caught_up

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.fixture(scope="module")
def roomless() -> Iterator[LocalCluster]:
    """A cluster whose brokers have room for no fetch session."""
    properties = {"max.incremental.fetch.session.cache.slots": "0"}
    with LocalCluster.start("roomless", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        yield cluster


def test_everything_is_read_all_the_same(
    roomless: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """What is there and what comes is copied, of many partitions, most of them idle."""
    name = topic("roomless")
    topics.create_both(roomless, west, name, partitions=40)
    for partition in (0, 7):
        topics.produce(roomless, name, topics.some(3000, chance, value_bytes=1000), partition=partition)

    async def scenario() -> None:
        async with Mirror(roomless, west).running(name) as running:
            await running.until(caught_up)
            with trickling(roomless, name, chance, partitions=3):
                await running.until(lambda reports: reports[LaneKey(TargetTopic(name), 0)].position > 4000)
            await running.until_copied()

    asyncio.run(scenario())

    assert oracle.assert_same(roomless, west, name, partitions=40) > 7000


def test_what_cannot_be_read_is_told(
    roomless: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Errors in answers without a session count as well."""
    name = topic("deleted")
    topics.create_both(roomless, west, name)
    for _ in range(40):
        topics.produce(roomless, name, topics.some(50, chance, value_bytes=2000))
    # Slow enough to be overtaken for certain: the records are 4 MB.
    limits = Limits(bytes_per_s=200_000, bytes_in_flight=100_000)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with Mirror(roomless, west).running(name, engine={"limits": limits}) as running:
            await running.until(lambda reports: reports[key].position > 0)
            topics.delete_records(roomless, name, 1500)
            await running.until(lambda reports: reports[key].state is LaneState.DATA_GAP, may_end=True)

    asyncio.run(scenario())
