"""Coordinators of groups are killed while positions are carried: every group gets where it belongs."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.groups.groups import describe_groups
from testing.groups import consumers
from testing.groups.carrying import Carrying, between, carrying
from testing.records import topics
from testing.runs.mirror import Mirror
from tests.faults.schedule import Fault, struck

pytestmark = pytest.mark.faults

GROUPS: Final = 12
RECORDS: Final = 400


@pytest.mark.parametrize("side", ["target", "source"])
def test_a_coordinator_is_killed_between_commits(
    mirror3: Mirror, topic: Callable[[str], str], chance: random.Random, side: str
) -> None:
    """Groups are carried on while a third of the coordinators is gone, and nothing is lost when it comes back."""
    name = topic("coordinated")
    source, target = mirror3.source, mirror3.target
    topics.create_both(source, target, name, replicas=3, min_insync_replicas=2)
    for cluster in (source, target):
        topics.produce(cluster, name, topics.some(RECORDS, chance))
    groups = [topic("coordinated") for _ in range(GROUPS)]
    offsets = dict.fromkeys(groups, 0)

    async def commit(step: int) -> None:
        for group in groups:
            offsets[group] += step
        await asyncio.to_thread(consumers.commit, source, {g: {(name, 0): at} for g, at in offsets.items()})

    async def arrived(link: Carrying) -> bool:
        return all([await link.offsets(group) == {0: at} for group, at in offsets.items()])

    async def scenario() -> None:
        await commit(1)
        async with carrying(between(source, target, [name], groups)) as link:
            await link.until(lambda: arrived(link))
            described = await describe_groups(link.target if side == "target" else link.source, groups)
            cluster = target if side == "target" else source
            broker = cluster.brokers[described.values[groups[0]].coordinator - 1]
            enough = asyncio.Event()
            writing = asyncio.create_task(steadily(commit, enough))
            async with struck(broker, Fault.KILL, chance):
                await asyncio.sleep(3.0)
                enough.set()
                await writing
                await commit(10)
                begun = time.monotonic()
                await link.until(lambda: arrived(link))
                print(f"carried {time.monotonic() - begun:.1f} s after the commit, without {broker!r}")  # noqa: T201
            await commit(10)
            await link.until(lambda: arrived(link))
            await link.until(lambda: {link.standing(group) for group in groups} == {Standing.IN_STEP})

    asyncio.run(scenario())


async def steadily(commit: Callable[[int], Awaitable[None]], enough: asyncio.Event) -> None:
    """Commit ten times a second."""
    while not enough.is_set():
        await commit(1)
        await asyncio.sleep(0.1)
