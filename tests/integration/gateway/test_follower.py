"""What followers have is known as it moves: wherever their leaders are, and also when they lose it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from isthmus.gateway.synchronous.follower import FollowerWatch
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.naming import TargetTopic
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration
Name = Callable[[str], str]


@asynccontextmanager
async def watching(cluster: LocalCluster, **settings: float) -> AsyncIterator[FollowerWatch]:
    """A watch over a cluster."""
    async with Client(cluster.cluster()) as client:
        watch = FollowerWatch(client, **settings)
        try:
            yield watch
        finally:
            await watch.aclose()


async def fill(cluster: LocalCluster, name: str, count: int, partition: int = 0) -> None:
    """Write so many records, in a thread."""
    given = [topics.Given(None, b"%d" % number, [], topics.SEPTEMBER) for number in range(count)]
    await asyncio.to_thread(topics.produce, cluster, name, given, partition=partition, **{"linger.ms": 0})


def test_whoever_waits_is_woken_in_order(west: LocalCluster, topic: Name) -> None:
    """Offsets are waited for before they are there, in any order, by many, while others come and go; who waits no more
    is not woken. What is there already need not be waited for.
    """
    name = TargetTopic(topic("followed"))
    topics.create(west, name, partitions=3)

    async def story() -> None:
        woken: list[int] = []
        async with watching(west) as watch, asyncio.timeout(TERM_S):
            for offset in (9, 3, 6, 3):
                assert watch.wait((name, 0), offset, partial(woken.append, offset)) is not None
            left = watch.wait((name, 0), 5, lambda: woken.append(-1))
            assert left is not None
            left.cancel()
            waiting = asyncio.create_task(watch.wait_until_covered({(name, 0): 9, (name, 1): 2}))
            for partition, count in ((0, 4), (1, 1), (0, 5), (1, 1)):
                assert not waiting.done()
                await fill(west, name, count, partition)
            await waiting
            # One that nobody waited for before, while a long poll is on its way.
            begun_at = time.monotonic()
            await fill(west, name, 1, 2)
            await watch.wait_until_covered({(name, 2): 1})
            assert time.monotonic() - begun_at < TERM_S

            assert woken == [3, 3, 6, 9]
            assert (watch.end((name, 0)), watch.end((name, 1))) == (9, 2)
            assert watch.wait((name, 0), 9, lambda: woken.append(-2)) is None
            assert (watch.lacks((name, 0), 8), watch.lacks((name, 3), 0)) == (False, False)
            while not watch.lacks((name, 0), 9):
                await asyncio.sleep(0.02)
            assert watch.still_s((name, 0)) == 0
            assert watch.losses == {}

    asyncio.run(story())


def test_a_leader_that_goes(east3: LocalCluster, topic: Name) -> None:
    """The new leader is asked: whoever waited goes on waiting, and hears of what is written there. Nothing is taken for
    lost, though new leaders do not know at once how far their followers are.
    """
    name = TargetTopic(topic("followed"))
    topics.create(east3, name, assigned=[[2, 1, 3], [3, 1, 2]], min_insync_replicas=2)

    async def story() -> None:
        async with watching(east3) as watch, asyncio.timeout(TERM_S):
            await fill(east3, name, 20)
            await watch.wait_until_covered({(name, 0): 20})
            waiting = asyncio.create_task(watch.wait_until_covered({(name, 0): 30, (name, 1): 5}))
            await asyncio.to_thread(east3.broker(2).kill)
            try:
                await fill(east3, name, 5, 1)
                await fill(east3, name, 10)
                await waiting
            finally:
                await asyncio.to_thread(east3.broker(2).start)
            assert watch.losses == {}

    asyncio.run(story())


def test_what_is_lost_is_reported(west: LocalCluster, topic: Name) -> None:
    """Another topic of the same name has nothing of what the former one had."""
    name = TargetTopic(topic("followed"))
    topics.create(west, name)

    async def story() -> None:
        async with watching(west) as watch, asyncio.timeout(TERM_S):
            await fill(west, name, 7)
            await watch.wait_until_covered({(name, 0): 7})
            waiting = asyncio.create_task(watch.wait_until_covered({(name, 0): 8}))
            await asyncio.to_thread(topics.delete, west, name)
            await asyncio.to_thread(topics.create, west, name)
            await fill(west, name, 3)
            while not watch.losses:
                await asyncio.sleep(0.02)
            assert watch.losses == {(name, 0): (7, 0)}
            while watch.end((name, 0)) != 3:
                await asyncio.sleep(0.02)
            assert not waiting.done()
            waiting.cancel()

    asyncio.run(story())


def test_who_comes_again_waits_for_the_same(west: LocalCluster, topic: Name) -> None:
    """A partition stands still from when something of it was waited for that did not come, whoever waits then."""
    name = TargetTopic(topic("followed"))
    topics.create(west, name)

    async def story() -> None:
        async with watching(west) as watch, asyncio.timeout(TERM_S):
            first = watch.wait((name, 0), 1, lambda: None)
            assert first is not None
            await asyncio.sleep(0.2)
            first.cancel()
            assert watch.still_s((name, 0)) == 0
            assert watch.wait((name, 0), 1, lambda: None) is not None
            assert watch.still_s((name, 0)) >= 0.2
            await fill(west, name, 1)
            await watch.wait_until_covered({(name, 0): 1})
            assert watch.wait((name, 0), 2, lambda: None) is not None
            assert watch.still_s((name, 0)) < 0.2

    asyncio.run(story())


def test_what_was_lost_while_nobody_waited(west: LocalCluster, topic: Name) -> None:
    """A partition that was not asked for meanwhile is compared with what it had, before anybody is told."""
    name = TargetTopic(topic("followed"))
    topics.create(west, name)

    async def story() -> None:
        async with watching(west, kept_s=0.0) as watch, asyncio.timeout(TERM_S):
            await fill(west, name, 7)
            await watch.wait_until_covered({(name, 0): 7})
            while watch.end((name, 0)) >= 0:
                # Nobody asks for it any more.
                await asyncio.sleep(0.02)
            await asyncio.to_thread(topics.delete, west, name)
            await asyncio.to_thread(topics.create, west, name)
            await fill(west, name, 3)
            await watch.wait_until_covered({(name, 0): 2})
            assert watch.losses == {(name, 0): (7, 0)}

    asyncio.run(story())
