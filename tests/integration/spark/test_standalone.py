"""Leases on a Spark cluster: a master and two workers as processes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.ledger.documents.kinds import TaskDocument
from isthmus.ledger.leases import leases_of
from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.model.process.receipt import Ending
from isthmus.run.workers import Workers
from isthmus.spark.session import offered_slots, session, slot_count
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.traffic import traffic
from testing.runs.processes import command_of, executors, kill, pause, resume
from testing.runs.standalone import WORKERS, StandaloneSpark, standalone_spark
from tests.integration.spark.controlled import Controlled, controlled

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A Spark cluster with two workers of one core each."""
    with standalone_spark(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(standalone: StandaloneSpark) -> Iterator[SparkSession]:
    """An application on it with two executors of one slot each."""
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
    with pytest.MonkeyPatch.context() as patch:
        # What an operator sets: the Python that every executor has.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        settings = SparkSettings(master=standalone.master, conf=standalone.conf)
        spark = session(settings, log=standalone.folder / "driver.log")
        yield spark
        spark.stop()


def test_leases_are_succeeded_where_no_slot_is_free(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Both executors copy all the time, and nothing is lost or doubled between a lease and its successor."""
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=2)
    slots = slot_count(spark.sparkContext, SparkSettings(master=spark.sparkContext.master or ""))
    assert slots == WORKERS

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), slots=slots, spare=0, term_s=12.0) as link:
            await link.assign(orders)
            with traffic(east, orders, partitions=range(2)):
                await link.until(lambda: len(link.scheduler.receipts) >= 4)
            await link.until_copied(orders, partitions=2)
            # On a machine with too much to do a successor may come too late for a term as short as this one.
            assert Ending.SUCCEEDED in {receipt.ending for receipt in link.scheduler.receipts}

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=2)


@pytest.mark.parametrize("kind", ["a worker of Spark's", "our image as a pod"])
def test_slots_follow_executors_that_come_and_go(spark: SparkSession, standalone: StandaloneSpark, kind: str) -> None:
    """An executor that joins the application is a slot more, which takes tasks; when it has left it is none."""
    context = spark.sparkContext

    def where(_: Iterable[int]) -> Iterable[int]:
        yield os.getppid()

    async def scenario() -> None:
        workers = Workers(SparkSettings(master=standalone.master), links=["one"], spark=spark)
        workers.start()
        _, slots = await workers.ready()

        async def until(count: int) -> None:
            deadline = time.monotonic() + TERM_S
            while slots.count != count:
                assert time.monotonic() < deadline, slots.count
                await asyncio.sleep(0.1)
                await workers.recount()

        await until(WORKERS)
        with standalone.pod(context) if "pod" in kind else standalone.worker():
            await until(WORKERS + 1)
            # Tasks that have to run at once, each of them below another executor.
            tasks = context.parallelize(range(WORKERS + 1), WORKERS + 1).barrier().mapPartitions(where)
            assert len(set(await asyncio.to_thread(tasks.collect))) == WORKERS + 1
        await until(WORKERS)

    asyncio.run(scenario())


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


def test_both_executors_copy_and_only_the_lanes_of_one_that_is_killed_move(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """They go to the other one at once, whose own lanes and lease stay; when the executor is back some return to it,
    without the end of a lease.
    """
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=4)
    counting = partial(offered_slots, spark.sparkContext, SparkSettings(master=spark.sparkContext.master or ""))

    async def scenario() -> None:
        async with controlled(
            spark, east, west, topic("link"), slots=WORKERS, spare=0, term_s=600.0, counting=counting
        ) as link:
            first, second = groups = link.scheduler.distribution.groups
            await link.assign(orders)
            with traffic(east, orders, partitions=range(4)):
                await link.until(lambda: copied(link) == set(range(4)) and len(executors_of(link)) == WORKERS)
                lost, own = executors_of(link)[1], set(first.lanes)
                assert executors_of(link)[0] != lost
                assert [len(group.lanes) for group in groups] == [2, 2]
                kill([pid for pid in executors() if f"--executor-id {lost} " in command_of(pid)])
                await link.until(lambda: set(first.lanes) > own and not second.lanes)
                for partition in range(4):
                    await link.until_written(orders, partition=partition)
                await link.until(lambda: all(group.lanes for group in groups))
                await link.until(lambda: executors_of(link).get(1, lost) != lost)
                assert endings_of(link, 0) <= {Ending.ORPHANED}
            await link.until_copied(orders, partitions=4)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=4)


def test_another_executor_has_the_lanes_of_one_that_hangs_until_it_is_back(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Spark counts it for two more minutes, and would let its next lease wait for as long."""
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=4)
    counting = partial(offered_slots, spark.sparkContext, SparkSettings(master=spark.sparkContext.master or ""))

    async def scenario() -> None:
        async with controlled(
            spark, east, west, topic("link"), slots=WORKERS, spare=0, term_s=600.0, counting=counting
        ) as link:
            first, second = link.scheduler.distribution.groups
            await link.assign(orders)
            with traffic(east, orders, partitions=range(4)):
                await link.until(lambda: copied(link) == set(range(4)) and len(executors_of(link)) == WORKERS)
                slot = f"--executor-id {executors_of(link)[1]} "
                hung = [pid for pid in executors() if slot in command_of(pid)]
                hung += [task.process.pid for task in tasks_of(link) if task.slot == 1]
                pause(hung)
                try:
                    await link.until(lambda: len(first.lanes) == 4)
                    assert counting() == WORKERS
                    for partition in range(4):
                        await link.until_written(orders, partition=partition)
                finally:
                    resume(hung)
                await link.until(lambda: bool(second.lanes))
                assert endings_of(link, 0) <= {Ending.ORPHANED}
            await link.until_copied(orders, partitions=4)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=4)


def executors_of(link: Controlled) -> dict[int, str]:
    """The executor of each lease that was heard, by slot."""
    leases = leases_of(link.ledger.link, link.ledger.documents, link.ledger.generation, lambda _: 0.0)
    return {lease.slot: lease.executor for lease in leases if lease.host}


def endings_of(link: Controlled, slot: int) -> set[Ending]:
    """How leases of a slot have ended. On a machine with too much to do one may not hear its controller for long."""
    return {receipt.ending for receipt in link.scheduler.receipts if receipt.slot == slot}


def copied(link: Controlled) -> set[int]:
    """The partitions of which something was copied."""
    return {key.partition for key, report in link.reports.items() if report.records}


def tasks_of(link: Controlled) -> list[TaskDocument]:
    """What tasks said last, for each slot."""
    return TaskDocument.find_all(link.ledger.documents.values())
