"""The log of commits while a part of it has no leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.commits.follower import CommitFollower
from isthmus.kafka.groups.groups import describe_groups
from isthmus.local import LocalCluster
from isthmus.model.kafka.group import offsets_partition
from isthmus.model.naming import SourceTopic
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import as_admin, create

pytestmark = pytest.mark.faults

BROKERS: Final = 3
GROUPS: Final = 8


def test_a_part_of_the_log_without_a_leader(topic: Callable[[str], str]) -> None:
    """Groups of the other parts are read and followed; its own are in error, and followed once it has a leader."""
    name = topic("parted")
    groups: list[str] = []
    while len({offsets_partition(group, BROKERS) for group in groups}) < BROKERS:
        groups = [topic("parted") for _ in range(GROUPS)]
    with LocalCluster.start("parted", brokers=BROKERS, heap_mb=256, properties={OFFSETS_REPLICAS: "1"}) as cluster:
        create(cluster, name, replicas=3)
        consumers.commit(cluster, {group: {(name, 0): 0} for group in groups})

        async def scenario() -> None:
            async with Client(as_admin(cluster)) as client:
                found = (await describe_groups(client, groups)).values
                broker = cluster.broker(found[groups[0]].coordinator)
                lost = {group for group in groups if found[group].coordinator == broker.node_id}
                broker.kill()
                follower = CommitFollower(client, set(groups).__contains__, groups)
                deadline = time.monotonic() + TERM_S

                async def until_told(expected: dict[str, int], in_error: set[str]) -> None:
                    while {
                        g: p[SourceTopic(name), 0].offset for g, p in follower.positions.items()
                    } != expected or follower.errors.keys() != in_error:
                        assert time.monotonic() < deadline, (follower.positions, follower.errors)
                        await follower.wait_for_changes(0.2)

                try:
                    await until_told({group: 0 for group in groups if group not in lost}, lost)
                    others = {group: 1 for group in groups if group not in lost}
                    await asyncio.to_thread(consumers.commit, cluster, {g: {(name, 0): 1} for g in others})
                    await until_told(others, lost)
                    await asyncio.to_thread(broker.start)
                    await until_told({**others, **dict.fromkeys(lost, 0)}, set())
                    await asyncio.to_thread(consumers.commit, cluster, {g: {(name, 0): 2} for g in groups})
                    await until_told(dict.fromkeys(groups, 2), set())
                finally:
                    await follower.aclose()

        asyncio.run(scenario())


OFFSETS_REPLICAS: Final = "offsets.topic.replication.factor"
