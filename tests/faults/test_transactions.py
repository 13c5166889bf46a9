"""Brokers of the target are killed and restarted while many small transactions, committed and aborted, are copied."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import AbortedPolicy
from testing.brokers.hanging import trusting
from testing.records import oracle, topics
from testing.records.omission import assert_left_out
from testing.records.transactions import interleave
from testing.runs.mirror import Mirror, caught_up, reached
from tests.faults.schedule import Fault, leader, struck

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
PARTITIONS: Final = 3
STEPS: Final = 3_000


@pytest.mark.parametrize(
    "fault",
    [pytest.param(Fault.RESTART, id="restart"), pytest.param(Fault.KILL, id="kill")],
)
def test_no_control_record_is_written_twice(
    east: LocalCluster, mirror3: Mirror, topic: TopicNamer, chance: random.Random, fault: Fault
) -> None:
    """Whatever befalls the leader that writes the ends of transactions, each is there once, and so is all the rest."""
    name = topic("ended")
    mirror = Mirror(east, mirror3.target)
    with trusting(mirror.target):
        copy_through(fault, mirror, name, chance, AbortedPolicy.COPY)
    oracle.assert_same(east, mirror.target, name, partitions=PARTITIONS)


def test_no_lane_stops_where_brokers_verify(
    east: LocalCluster, mirror3: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """By default brokers do: then nothing is left to coordinators, and a kill ends no lane."""
    name = topic("left-out")
    mirror = Mirror(east, mirror3.target)
    copy_through(Fault.KILL, mirror, name, chance, AbortedPolicy.AUTO)
    assert assert_left_out(east, mirror.target, name, partitions=PARTITIONS) > 0


def copy_through(fault: Fault, mirror: Mirror, name: str, chance: random.Random, aborted: AbortedPolicy) -> None:
    """Copy a topic of small transactions, while the leader of one partition fails and comes back."""
    topics.create(mirror.source, name, partitions=PARTITIONS)
    topics.create(mirror.target, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=2)
    interleave(mirror.source, name, chance, steps=STEPS, partitions=PARTITIONS)
    end = oracle.ends(mirror.source.admin_bootstrap_servers, name).high

    async def scenario() -> None:
        async with mirror.running(name, engine={"settle_s": 2.0}, aborted=aborted) as running:
            await running.until(reached(int(end * chance.uniform(0.1, 0.5))))
            broker = await leader(running.target, mirror.target, name, 0)
            async with struck(broker, fault, chance):
                await running.until(caught_up)

    asyncio.run(scenario())
