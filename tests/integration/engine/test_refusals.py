"""What brokers refuse again and again is a state of the lane, whatever the answer is; when they take it, it goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.kafka.connect.connection import Connection
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.link import Limits
from isthmus.model.naming import TargetTopic
from testing.brokers.acls import denied
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror, Running, all_are, caught_up
from testing.runs.witness import until_told

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


def test_lanes_that_are_blocked_leave_room_for_the_others(
    east: LocalCluster, secured: LocalCluster, topic: TopicNamer, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many lanes with much to copy may not write: another goes on, and readers do not ask without a pause."""
    blocked, other = [topic(f"blocked{n}") for n in range(5)], topic("other")
    mirror = Mirror(east, secured, target_login=secured.cluster())
    for name in (*blocked, other):
        topics.create_both(east, secured, name)
    keys, beside = [LaneKey(TargetTopic(name), 0) for name in blocked], LaneKey(TargetTopic(other), 0)
    limits = Limits(bytes_in_flight=1 << 20)
    asked, turns = list[str](), list[int]()
    post = Connection.post

    def counted(self: Connection, request: Any, **settings: Any) -> Any:
        asked.append(request.name)
        return post(self, request, **settings)

    async def scenario() -> None:
        async with mirror.running(*blocked, other, engine={"limits": limits}) as running:
            await running.until(all_are(LaneState.ACTIVE))
            with ExitStack() as refused:
                for name in blocked:
                    refused.enter_context(denied(secured, ResourceType.TOPIC, name, AclOperation.WRITE))
                    await asyncio.to_thread(
                        topics.produce, east, name, topics.some(2000, chance, value_bytes=1000), batch_num_messages=50
                    )
                await running.until(lambda reports: all(reports[k].state is LaneState.NOT_AUTHORIZED for k in keys))
                for turn in range(5):
                    turns.append(turn)
                    await asyncio.to_thread(topics.produce, east, other, topics.some(50, chance, value_bytes=1000))
                    await running.until(lambda reports: reports[beside].position >= 50 * len(turns))
                    await asyncio.sleep(1.0)
                assert running.engine.room.share_bytes >= limits.bytes_in_flight // 4, (
                    "blocked lanes keep what they read"
                )
                monkeypatch.setattr(Connection, "post", counted)
                await asyncio.sleep(4.0)
                # Idle readers ask twice a second.
                assert asked.count("FetchRequest") < 100
            await running.until_copied()

    asyncio.run(scenario())

    for name in (*blocked, other):
        oracle.assert_same(east, secured, name)


def test_the_lag_of_a_partition_that_others_wrote_to(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """What stands at wrong offsets is not copied; whoever comes next does not know how much that is, and says so."""
    name = topic("misplaced")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(5, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name) as running:
            await running.until_copied()
            await asyncio.to_thread(topics.produce, mirror.target, name, topics.some(10, chance))
            await asyncio.to_thread(topics.produce, mirror.source, name, topics.some(10, chance))
            found = await until_told(running, key, LaneState.FOREIGN_WRITE, "another producer")
            # An answer may not have had all of them yet.
            assert (found.position, found.lag_records) == (5, found.source_end - 5)
            assert found.lag_records > 0
        async with mirror.running(name) as running:
            reports = await running.until(lambda reports: reports[key].state.is_wrong, may_end=True)
            assert reports[key].lag_records == -1

    asyncio.run(scenario())
