"""A follower that has diverged is brought back, and what only it had is set aside and can be replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.control.recovery.links import LinkRecoverer
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.recovery import Recovery, RecoveryStage, quarantine_of
from isthmus.wire.client import Client
from tests.integration.control.recovering import Interrupted, Stored, interrupted_at, log_of
from tests.integration.control.running import configuration_of, ends, link_of, running
from tests.integration.groups import consumers
from tests.integration.groups.test_carrying import records
from tests.integration.lane import topics
from tests.integration.lane.topics import SEPTEMBER, Given

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
FOREIGN = [Given(b"k", b"foreign %d" % n, [("h", b"%d" % n)], SEPTEMBER + n) for n in range(3)]


def link_between(east: LocalCluster, west: LocalCluster, name: str, *patterns: str) -> Configuration:
    """A file with one link of some topics."""
    return configuration_of(link_of(east.cluster(), west.cluster(), *patterns, name=name))


def told(record: Stored) -> tuple[bytes | None, bytes | None, int]:
    """What a record says, wherever it stands."""
    return record.key, record.value, record.timestamp


def kind_of(record: Stored) -> bytes | None:
    """Why a record was set aside."""
    return dict(record.headers)["isthmus.kind"]


async def topic_id(cluster: LocalCluster, name: str) -> str:
    async with Client(cluster.cluster()) as client:
        return str((await client.metadata([name])).topics[name].topic_id)


def test_a_foreign_write_is_set_aside_and_the_topic_filled_anew(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """While the link runs, and ended at any step: both logs are alike again, the foreign records are in quarantine, and
    groups stand where they stood, or at the last shared offset. Another topic of the link is not touched.
    """
    link, name, other = topic("link"), topic("orders"), topic("other")
    for each in (name, other):
        topics.create(east, each, partitions=2)
        topics.produce(east, each, records(20))
    topics.produce(east, name, records(7), partition=1)
    only = link_between(east, west, link, name, other)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.3)
    steps: list[str] = []

    async def scenario() -> Recovery:
        async with running(only, spark) as run:
            await run.until(lambda: _are_at(west, name, [20, 7]))
            await run.until(lambda: _are_at(west, other, [20, 0]))
            ids = [await topic_id(west, each) for each in (name, other)]
            await asyncio.to_thread(topics.produce, west, name, FOREIGN)
            positions = {"below": 7, "beyond": 22}
            offsets = {f"{link}.{group}": {(name, 0): offset} for group, offset in positions.items()}
            await asyncio.to_thread(consumers.commit, west, offsets)
            await asyncio.to_thread(topics.produce, east, name, records(5, begin=20))
            await run.until(lambda: run.state_of(name) is LaneState.FOREIGN_WRITE)
            told = await recoverer(on_step=steps.append).recover(dry_run=True)
            assert [p.shared for p in told.topics[0].partitions] == [20, 7]
            assert await topic_id(west, name) == ids[0]
            for step in range(30):
                steps.clear()
                try:
                    found = await recoverer(on_step=interrupted_at(step, steps)).recover()
                except Interrupted:
                    continue
                if found.topics:
                    break
            await run.until(lambda: _are_at(west, name, [25, 7]))
            assert await topic_id(west, name) != ids[0]
            assert await topic_id(west, other) == ids[1]
            await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            return found

    found = asyncio.run(scenario())
    (one,) = found.topics
    assert one.stage is RecoveryStage.DONE
    for partition in range(2):
        assert log_of(west, name, partition) == log_of(east, name, partition)
    quarantine = log_of(west, quarantine_of(name))
    assert one.quarantined == len(quarantine)
    # Behind them the link's own records may stand, at wrong offsets.
    assert {kind_of(each) for each in quarantine[len(FOREIGN) :]} <= {b"misplaced"}
    aside = quarantine[: len(FOREIGN)]
    assert [told(each) for each in aside] == [(each.key, each.value, each.timestamp) for each in FOREIGN]
    assert [dict(each.headers)["isthmus.offset"] for each in aside] == [b"20", b"21", b"22"]
    assert all(each.headers[0] == ("h", b"%d" % n) and kind_of(each) == b"diverged" for n, each in enumerate(aside))
    consumers.await_position(west, f"{link}.below", (name, 0), 7)
    consumers.await_position(west, f"{link}.beyond", (name, 0), 20)


async def _are_at(cluster: LocalCluster, name: str, wanted: list[int]) -> bool:
    return await ends(cluster, name, partitions=len(wanted)) == wanted
