"""Producers of one cluster of a tree have a clock that is ahead."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.groups.positions.carrying import Standing
from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.links.positions import committed
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.running import Running, running
from testing.runs.treeload import AHEAD_MS, PARTITIONS, Clusters, check, file_of, has, has_all, produce

pytestmark = pytest.mark.integration
COUNT = 30


def read_up_to(cluster: LocalCluster, group: str, end: int, seen: Counter[tuple[int, str, int]]) -> None:
    """Read each partition of the topic that is named as the group up to an offset, from where the group stands."""
    member = consumers.consumer(cluster, group, auto_offset_reset="error")
    try:
        for begin in member.committed([TopicPartition(group, p) for p in range(PARTITIONS)], timeout=TERM_S):
            member.assign([begin])
            for _ in range(begin.offset, end):
                message = member.poll(TERM_S)
                assert message is not None, begin
                assert message.error() is None, message.error()
                seen[begin.partition, (message.key() or b"").decode(), int(message.value() or b"")] += 1
            at = TopicPartition(group, begin.partition, end, metadata=f"read to {end}")
            member.commit(offsets=[at], asynchronous=False)
    finally:
        member.close()


def test_a_clock_that_is_ahead_hides_no_message(
    four: Clusters, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """South's is an hour ahead: its messages are everywhere once and in order all the same. A consumer that has read
    them goes to a cluster where those of another producer lie in front of them, an hour older by their times. Its group
    is CLOCKS_DIFFER, and it misses none of them.
    """
    name = topic("ahead")
    used = {alias: four[alias] for alias in ("east", "west", "south")}
    assert AHEAD_MS["south"] == 3_600_000
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = file_of(used, [["east", "west"], "south"], name)
    file["trees"][0] |= {"groups": [name], "margin_s": 1}
    configuration = config.parse(json.dumps(file))
    written = {"east": 0, "west": COUNT, "south": COUNT}
    for alias in ("west", "south"):
        produce(used[alias], alias, name, range(COUNT), "lz4")
    seen: Counter[tuple[int, str, int]] = Counter()

    def stands(alias: str, beside: str) -> bool:
        found: Mapping[int, tuple[int, str]] = committed(used[alias], name, name)
        return [metadata for _, metadata in found.values()] == [beside] * PARTITIONS

    def differ(run: Running) -> bool:
        return any(
            group.standing == Standing.CLOCKS_DIFFER
            for link in run.links
            if link.link == f"{name}.east.1"
            for group in link.groups
        )

    async def scenario() -> None:
        # At first nobody brings west's messages to east: there they come behind south's, and at west they are in front.
        others = tuple(link for link in configuration.links if link.name != f"{name}.west.1")
        async with running(replace(configuration, links=others), spark) as run:
            await run.until(lambda: asyncio.to_thread(has, used["east"], name, COUNT * PARTITIONS))
            await run.until(lambda: asyncio.to_thread(has, used["west"], name, 2 * COUNT * PARTITIONS))
            assert (await run.end_well()).exit_code == 0
        async with running(configuration, spark) as run:
            await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            consumers.commit(used["east"], {name: {(name, p): 0 for p in range(PARTITIONS)}})
            await run.until(lambda: differ(run))
            await asyncio.to_thread(read_up_to, used["east"], name, COUNT - 1, seen)
            await run.until(lambda: asyncio.to_thread(stands, "west", f"read to {COUNT - 1}"))
            assert {origin for _, origin, _ in seen} == {"south"}
            await asyncio.to_thread(read_up_to, used["west"], name, 2 * COUNT, seen)
            assert differ(run)
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    check(used, name, written)
    assert seen.keys() == {
        (p, alias, n) for p in range(PARTITIONS) for alias in ("west", "south") for n in range(COUNT)
    }
