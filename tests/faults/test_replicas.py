"""A target with too few replicas says so all the while; a frozen broker keeps no lane of another one waiting."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.runs.mirror import Mirror
from testing.runs.witness import until_told

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]


def test_a_target_below_min_insync_replicas(mirror3: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """What cannot be replicated is a state within seconds, and stays one without a pause; the lane goes on when the
    replica is back.
    """
    name = topic("thin")
    topics.create(mirror3.source, name)
    topics.create(mirror3.target, name, assigned=[[1, 2]], min_insync_replicas=2)
    topics.produce(mirror3.source, name, topics.some(5, chance))
    key, follower = LaneKey(TargetTopic(name), 0), mirror3.target.brokers[1]
    assert follower.node_id == 2

    async def scenario() -> None:
        async with mirror3.running(name) as running:
            await running.until_copied()
            follower.kill()
            await asyncio.to_thread(topics.produce, mirror3.source, name, topics.some(5, chance))
            await until_told(running, key, LaneState.TARGET_UNAVAILABLE, "in-sync replicas")
            for _ in range(60):
                # In between attempts as well.
                assert running.reports[key].state is LaneState.TARGET_UNAVAILABLE
                await asyncio.sleep(0.1)
            await asyncio.to_thread(follower.start)
            await running.until_copied()

    asyncio.run(scenario())

    oracle.assert_same(mirror3.source, mirror3.target, name)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_frozen_broker_delays_only_its_own_lanes(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random, side: str
) -> None:
    """An engine that starts beside a frozen broker places and copies what others lead before that one is given up."""
    name = topic("beside")
    cluster = mirror3.source if side == "source" else mirror3.target
    topics.create(mirror3.source, name, assigned=[[1], [2], [3]])
    topics.create(mirror3.target, name, assigned=[[1], [2], [3]])
    for partition in range(3):
        topics.produce(mirror3.source, name, topics.some(5, chance), partition=partition)
    keys = [LaneKey(TargetTopic(name), partition) for partition in range(3)]
    frozen = cluster.broker(3)

    async def scenario() -> None:
        frozen.pause()
        try:
            async with mirror3.running(name) as running:
                reports = await running.until(lambda reports: all(reports[key].position == 5 for key in keys[:2]))
                assert reports[keys[2]].state is LaneState.STARTING, "already given up"
        finally:
            frozen.resume()
        async with mirror3.running(name) as running:
            await running.until_copied()

    asyncio.run(scenario())

    oracle.assert_same(mirror3.source, mirror3.target, name, partitions=3)
