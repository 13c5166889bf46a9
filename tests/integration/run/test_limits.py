"""What a link may take: measured at the target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import pytest
from pyspark.sql import SparkSession

from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.local import LocalCluster
from isthmus.memory.filtering import Filters
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import configuration_of, ends, link_of, running

pytestmark = pytest.mark.integration

MIB: Final = 1 << 20
RECORDS: Final = 640
RECORD_BYTES: Final = MIB // 16
RATE_BYTES_PER_S: Final = 5 * MIB
ANSWER_BYTES_MAX: Final = 8 * MIB


def test_a_link_keeps_to_its_bytes_per_second(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """Between two moments no more arrives than the rate allows, and what was under way."""
    name = topic("limited")
    topics.create(east, name)
    topics.produce(
        east, name, [Given(None, b"%d" % n * (RECORD_BYTES // 3), [], topics.SEPTEMBER) for n in range(100, 740)]
    )
    link = link_of(east.cluster(), west.cluster(), f"{name}.none", name=name)
    configuration = configuration_of(link)
    seen: list[tuple[float, int]] = []

    async def has_come() -> bool:
        before = time.monotonic()
        (end,) = await ends(west, name) or [0]
        # The first sight counts from before it was asked for, the last one to after it was told.
        seen.append((before if not seen else time.monotonic(), end))
        if end <= 0:
            seen.clear()
        return end == RECORDS

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(lambda: len(run.links) == 1)
            # An operator sets it of the link that runs; whoever is told of the filters was told of that before.
            async with AsyncFabric(configuration) as fabric:
                await fabric.link(name).change_settings({"limits.bytes_per_s": RATE_BYTES_PER_S})
                await fabric.filter(name, Filters(topics_include=(name,)))
            await run.until(has_come)
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    (first_at, first), (last_at, last) = seen[0], seen[-1]
    arrived_bytes = (last - first) * RECORD_BYTES
    assert arrived_bytes <= RATE_BYTES_PER_S * (last_at - first_at) + 2 * ANSWER_BYTES_MAX
