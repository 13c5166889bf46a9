"""Brokers of the target are killed and restarted while many small transactions, committed and aborted, are copied."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.cluster.local import LocalCluster
from tests.faults.schedule import Fault, leader, struck
from tests.integration.cluster.hanging import trusting
from tests.integration.lane import oracle, topics
from tests.integration.lane.mirror import Mirror, caught_up, reached
from tests.integration.lane.transactions import interleave

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
PARTITIONS: Final = 3
STEPS: Final = 3_000


@pytest.mark.parametrize("fault", [Fault.RESTART, Fault.KILL], ids=lambda fault: fault.name.lower())
def test_no_control_record_is_written_twice(
    east: LocalCluster, mirror3: Mirror, topic: TopicNamer, chance: random.Random, fault: Fault
) -> None:
    """Whatever befalls the leader that writes the ends of transactions, each is there once, and so is all the rest."""
    name = topic("ended")
    mirror = Mirror(east, mirror3.target)
    topics.create(east, name, partitions=PARTITIONS)
    topics.create(mirror.target, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=2)
    interleave(east, name, chance, steps=STEPS, partitions=PARTITIONS)
    end = oracle.ends(east.admin_bootstrap_servers, name).high

    async def scenario() -> None:
        async with mirror.running(name, engine={"settle_s": 2.0}) as running:
            await running.until(reached(int(end * chance.uniform(0.1, 0.5))))
            broker = await leader(running.target, mirror.target, name, 0)
            async with struck(broker, fault, chance):
                await running.until(caught_up, term_s=90.0)

    with trusting(mirror.target):
        asyncio.run(scenario())

    oracle.assert_same(east, mirror.target, name, partitions=PARTITIONS)
