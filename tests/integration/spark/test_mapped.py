"""Mapped lanes under leases that come, go and die: their place and their map are in the ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from isthmus.ledger.documents.kinds import MapDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.maps import lane_maps
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.translation import OffsetMap
from isthmus.spark.leases.timings import LeaseTimings
from testing.records import topics
from testing.records.traffic import traffic
from testing.records.trickle import trickling
from testing.runs.mapping import assert_mapped
from testing.runs.processes import kill, python_workers
from tests.integration.spark.controlled import Controlled, controlled

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


async def until_mapped(link: Controlled, name: str) -> OffsetMap:
    """Wait until the ledger says that all that the source has was copied; the map of the lane."""
    key, (end,) = LaneKey(TargetTopic(name), 0), await link.ends(link.source, name)

    def is_there() -> bool:
        found = lane_maps(link.ledger.link, link.ledger.documents).get(key)
        return found is not None and found.cursor.source_offset >= end

    await link.until(is_there)
    return lane_maps(link.ledger.link, await read_documents(link.target))[key].offsets


def test_leases_hand_a_mapped_lane_over(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """However often a lease follows another while others write too, one map says where everything is, in few words."""
    orders, chance = topic("orders"), random.Random(1)
    topics.create_both(east, west, orders)

    async def scenario() -> OffsetMap:
        async with controlled(spark, east, west, topic("link"), term_s=6.0) as link:
            await link.assign(orders, is_mapped=True)
            with traffic(east, orders), trickling(west, orders, chance):
                await link.until(lambda: len(link.scheduler.receipts) >= 3)
            offsets = await until_mapped(link, orders)
            segments = MapDocument.find_all(link.ledger.documents.values())
            assert len(segments) <= 2, "a lease goes on with the segment of the one before"
            return offsets

    assert_mapped(east, west, orders, orders, asyncio.run(scenario()))


def test_dead_workers_lose_and_double_nothing(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """What a worker had appended and not written down when it was killed is found in the target's log."""
    timings = LeaseTimings(revocation_s=600.0)
    orders, chance = topic("orders"), random.Random(2)
    topics.create_both(east, west, orders)

    async def scenario() -> OffsetMap:
        async with controlled(spark, east, west, topic("link"), term_s=600.0, timings=timings) as link:
            await link.assign(orders, is_mapped=True)
            with traffic(east, orders), trickling(west, orders, chance):
                for _ in range(3):
                    await link.until_records(link.records + 500)
                    kill(python_workers())
                    await link.until(lambda: link.scheduler.problem is not None)
                    link.scheduler.problem = None
            return await until_mapped(link, orders)

    assert_mapped(east, west, orders, orders, asyncio.run(scenario()))
