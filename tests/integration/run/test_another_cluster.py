"""An address of a link leads into another cluster while it runs: its own is away, and the other one is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.state import LinkState
from testing.brokers.moving import MovingAddress, moving_address
from testing.groups.carrying import records
from testing.patience import UNFENCED
from testing.records import topics
from testing.runs.running import Running, configuration_of, ends, link_of, running

pytestmark = pytest.mark.integration


def test_neither_side_is_followed_into_another_cluster(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """Nothing of a foreign source is copied, and nothing is created in a foreign target, not even a ledger, while new
    topics, leases and looks are due. The state has both ids, and all goes on when the address leads home.
    """
    stem = topic("moved")
    name, later = f"{stem}.first", f"{stem}.later"
    topics.create(east, name)
    topics.produce(east, name, records(20))

    async def scenario(elsewhere: LocalCluster, source: MovingAddress, target: MovingAddress) -> None:
        topics.create(elsewhere, name)
        topics.produce(elsewhere, name, records(500))
        topics.create(elsewhere, later)
        foreign = topics.names(elsewhere)
        link = link_of(source.cluster, target.cluster, f"{stem}.*", name=stem)
        async with running(configuration_of(link, term_s=3.0), spark) as run:
            await run.until(lambda: _is_at(west, name, 20))
            source.move(elsewhere)
            await run.until(lambda: _is_away(run, east, elsewhere))
            await asyncio.to_thread(topics.produce, east, name, records(5))
            await asyncio.sleep(5)
            assert await ends(west, name) == [20]
            assert await ends(west, later) == [-1]
            source.return_home()
            await run.until(lambda: _is_at(west, name, 25))
            target.move(elsewhere)
            await run.until(lambda: _is_away(run, west, elsewhere))
            await asyncio.to_thread(topics.produce, east, name, records(5))
            await asyncio.to_thread(topics.create, east, later)
            await asyncio.sleep(5)
            assert topics.names(elsewhere) == foreign
            assert await ends(elsewhere, name) == [500]
            target.return_home()
            await run.until(lambda: _is_at(west, name, 30))
            await run.until(lambda: _is_at(west, later, 0))
            assert (await run.end_well()).exit_code == 0

    with (
        LocalCluster.start("elsewhere", brokers=1, heap_mb=256, properties=UNFENCED) as elsewhere,
        moving_address(east) as source,
        moving_address(west) as target,
    ):
        asyncio.run(scenario(elsewhere, source, target))


async def _is_at(cluster: LocalCluster, name: str, end: int) -> bool:
    return await ends(cluster, name) == [end]


def _is_away(run: Running, meant: LocalCluster, found: LocalCluster) -> bool:
    """Whether the state of the only link says which cluster is away, and which one answers in its place."""
    (link,) = run.links
    told = "" if link.problem is None else link.problem.message
    return link.state is LinkState.UNAVAILABLE and {meant.cluster_id, found.cluster_id} <= {
        word.strip(",:.") for word in told.split()
    }
