"""What brokers refuse again and again is a state of the lane, whatever the answer is; when they take it, it goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from tests.faults.witness import until_told
from tests.integration.acls import denied
from tests.integration.lane import oracle, topics
from tests.integration.lane.mirror import Mirror, Running, caught_up
from tests.integration.lane.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def look_anew(running: Running) -> None:
    """Have the engine look where its lanes are, as after any lapse of its time."""
    running.engine.write_until(0.0)
    running.engine.write_until(None)


def test_a_target_that_does_not_tell_its_producers(
    east: LocalCluster, secured: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Without READ at the target it is not known which sequence its leader takes next: the lane names the right, asks
    seldom, and goes on when it has it.
    """
    name = topic("untold")
    mirror = Mirror(east, secured, target_login=secured.cluster())
    topics.create_both(east, secured, name)
    writing = TransactionalProducer(east, name)
    # A control record takes an offset and no sequence.
    for _ in range(2):
        writing.send(name, topics.some(5, chance))
        writing.end(commit=True)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name) as running:
            await running.until_copied()
            with denied(secured, ResourceType.TOPIC, name, AclOperation.READ):
                look_anew(running)
                await asyncio.to_thread(topics.produce, east, name, topics.some(5, chance))
                await until_told(running, key, LaneState.NOT_AUTHORIZED, f"READ on topic {name}", "target")
            await running.until_copied()

    asyncio.run(scenario())

    oracle.assert_same(east, secured, name, isolations=["read_committed"])


def test_an_idle_lane_is_healed_by_what_is_heard(
    east: LocalCluster, secured: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A lane with nothing to copy is ACTIVE again when its source can be read again, though no record comes."""
    name = topic("idle")
    mirror = Mirror(secured, east, source_login=secured.cluster())
    topics.create_both(secured, east, name)
    topics.produce(secured, name, topics.some(5, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name) as running:
            await running.until_copied()
            with denied(secured, ResourceType.TOPIC, name, AclOperation.READ):
                look_anew(running)
                await until_told(running, key, LaneState.NOT_AUTHORIZED, f"READ on topic {name}", "source")
            await running.until(caught_up)

    asyncio.run(scenario())
