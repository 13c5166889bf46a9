"""Leases on a Spark cluster: a master and two workers as processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.model.receipt import Ending
from isthmus.spark.session import session, slot_count
from tests.integration.lane import oracle, topics
from tests.integration.spark.controlled import controlled
from tests.integration.spark.processes import executors, kill
from tests.integration.spark.standalone import WORKERS, standalone_spark
from tests.integration.spark.traffic import traffic

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An application on a Spark cluster with two executors of one slot each."""
    folder = tmp_path_factory.mktemp("standalone")
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
    with standalone_spark(folder) as cluster, pytest.MonkeyPatch.context() as patch:
        # What an operator sets: the Python that every executor has.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        spark = session(SparkSettings(master=cluster.master, conf=cluster.conf), log=folder / "driver.log")
        yield spark
        spark.stop()


def test_leases_are_handed_from_executor_to_executor(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """A lease and its successor run in different processes, and nothing is lost or doubled between them."""
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=2)
    slots = slot_count(spark.sparkContext, SparkSettings(master=spark.sparkContext.master or ""))
    assert slots == WORKERS

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), slots=slots, term_s=12.0) as link:
            await link.assign(orders)
            with traffic(east, orders, partitions=range(2)):
                await link.until(lambda: len(link.scheduler.receipts) >= 3, term_s=90.0)
            await link.until_copied(orders, partitions=2)
            # On a machine with too much to do a successor may come too late for a term as short as this one.
            assert Ending.SUCCEEDED in {receipt.ending for receipt in link.scheduler.receipts}

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=2)


def test_a_killed_executor_costs_seconds(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Its worker knows that the process is gone, so the lease is started elsewhere without waiting for its term."""
    orders = topic("orders")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=600.0) as link:
            await link.assign(orders)
            with traffic(east, orders):
                await link.until_records(100)
                kill(executors())
                await link.until(lambda: link.scheduler.problem is not None)
                await link.until_written(orders)
            await link.until_copied(orders)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders)
