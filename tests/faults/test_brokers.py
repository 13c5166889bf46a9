"""Brokers of either side are killed, frozen and restarted while records flow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.records import topics
from testing.runs.mirror import Mirror, Running
from testing.runs.witness import until_all_advance, until_told
from tests.faults.schedule import Fault, leader, struck, until_in_sync
from tests.faults.stream import DAY_MS, Stream

pytestmark = pytest.mark.faults

PARTITIONS: Final = 3
SIDES: Final = ("target", "source")
PAIRS: Final = ((Fault.KILL, Fault.PAUSE), (Fault.KILL, Fault.RESTART), (Fault.KILL, Fault.KILL))
TopicNamer = Callable[[str], str]


def test_leaders_killed_frozen_and_restarted(mirror3: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Whatever befalls a leader of either side, all lanes go on before it is back, and both logs end up alike."""
    fresh, old = topic("fresh"), topic("old")
    for name in (fresh, old):
        topics.create_both(
            mirror3.source, mirror3.target, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=2
        )
    # Three days old: no leader keeps the state of our producer for those.
    stream = Stream(mirror3.source, {fresh: 0, old: 3 * DAY_MS}, partitions=PARTITIONS)

    async def strike(running: Running, side: str, fault: Fault) -> None:
        cluster, client = (mirror3.source, running.source) if side == "source" else (mirror3.target, running.target)
        await until_in_sync(cluster, fresh, old)
        name, partition = chance.choice((fresh, old)), chance.randrange(PARTITIONS)
        broker = await leader(client, cluster, name, partition)
        print(f"{fault.name} of {broker!r}, leader of {name}-{partition} at the {side}")  # noqa: T201
        async with struck(broker, fault, chance):
            if fault is Fault.KILL:
                state = LaneState.SOURCE_UNAVAILABLE if side == "source" else LaneState.TARGET_UNAVAILABLE
                await until_told(running, LaneKey(TargetTopic(name), partition), state)
            await until_all_advance(running)
        await until_all_advance(running)

    async def scenario() -> None:
        async with mirror3.running(fresh, old, engine={"settle_s": 2.0}) as running:
            with stream.flowing():
                await until_all_advance(running)
                faults = chance.choice(PAIRS)
                for side, fault in zip(chance.sample(SIDES, 2), faults, strict=True):
                    await strike(running, side, fault)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(mirror3.target)
