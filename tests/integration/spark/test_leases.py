"""Leases on an embedded Spark, between real brokers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from kafka.protocol.admin import DeleteTopicsRequest
from pyspark.sql import SparkSession

from isthmus.errors import Fenced
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import Document, MilestonesDocument, ProgressDocument, TaskDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneMark, LaneState, Milestone
from isthmus.model.naming import TargetTopic
from isthmus.model.process.receipt import Ending
from isthmus.spark.leases.tenure import REVOCATION_S
from isthmus.spark.leases.timings import LeaseTimings
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.traffic import traffic
from testing.runs.processes import kill, pause, python_workers
from tests.integration.spark.controlled import Controlled, controlled

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


def test_leases_follow_each_other_without_loss_or_overlap(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Every lease ends because its successor is ready, says so and how it leaves the lanes; the logs are the same."""
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=2)
    marks: list[LaneMark] = []
    milestones: list[Milestone] = []

    def hear(_: str, document: Document | None) -> None:
        if isinstance(document, TaskDocument):
            marks.extend(document.marks)
        elif isinstance(document, MilestonesDocument):
            milestones.extend(document.milestones)

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=6.0) as link:
            link.ledger.listen(hear)
            await link.assign(orders)
            with traffic(east, orders, partitions=range(2)) as produced:
                await link.until(lambda: len(link.scheduler.receipts) >= 4 and has_succeeded(link))
            await link.until_copied(orders, partitions=2)
            receipts = list(link.scheduler.receipts)
            # What is answered after a lease has ended is counted by nobody.
            is_clean = all(receipt.is_clean for receipt in receipts)
            await link.until_records(produced.records if is_clean else 1)
            copied = link.records

        # On a machine with too much to do a successor may come too late for a term as short as this one, and a beat of
        # the controller for its tasks.
        assert {receipt.ending for receipt in receipts} <= {Ending.SUCCEEDED, Ending.TERM, Ending.ORPHANED}
        # One that came too late has nothing to release.
        assert all(receipt.is_released or not receipt.has_written for receipt in receipts)
        assert all(receipt.problem is None for receipt in receipts)
        assert [receipt.generation for receipt in receipts] == list(range(1, len(receipts) + 1))
        assert copied <= produced.records
        assert {(mark.topic, mark.partition) for mark in marks} == {(orders, 0), (orders, 1)}
        assert all(mark.source_epoch >= 0 for mark in marks)
        # They are written down on the way, too, for whoever comes after a crash.
        assert {milestone.key for milestone in milestones} == {(orders, 0), (orders, 1)}
        assert max(receipt.memory_bytes for receipt in receipts) < 250 << 20

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=2)


def has_succeeded(link: Controlled) -> bool:
    """Whether a lease handed its lanes over to the next one."""
    return Ending.SUCCEEDED in {receipt.ending for receipt in link.scheduler.receipts}


def test_with_one_slot_a_lease_ends_for_the_one_behind_it(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """There is a pause then, and nothing worse: it ends in good order, and says how it left its lanes."""
    orders = topic("orders")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), slots=1, term_s=4.0) as link:
            await link.assign(orders)
            with traffic(east, orders):
                await link.until(lambda: len(link.scheduler.receipts) >= 2)
            await link.until_copied(orders)
            assert {receipt.ending for receipt in link.scheduler.receipts} == {Ending.SUCCEEDED}
            assert all(receipt.is_released for receipt in link.scheduler.receipts)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders)


def test_lanes_join_and_leave_a_running_lease(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """A new topic is copied, a paused one rests and a resumed one goes on, all in the lease that runs anyway."""
    first, second = topic("first"), topic("second")
    for name in (first, second):
        topics.create_both(east, west, name)
        topics.produce(east, name, topics.some(50, random.Random(1)))

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=600.0) as link:
            await link.assign(first)
            await link.until_copied(first)
            await link.assign(first, second)
            await link.until_copied(second)

            await link.assign(second)
            await link.until(lambda: lanes_of_progress(link) == {LaneKey(TargetTopic(second), 0)})
            for name in (first, second):
                await asyncio.to_thread(topics.produce, east, name, topics.some(10, random.Random(2)))
            await link.until_copied(second)
            assert await link.ends(link.target, first) == [50]

            await link.assign(first, second)
            await link.until_copied(first)
            assert {receipt.ending for receipt in link.scheduler.receipts} <= {Ending.ORPHANED}

    asyncio.run(scenario())
    for name in (first, second):
        oracle.assert_same(east, west, name)


def test_a_lease_that_ends_at_once_has_written_down_how_far_it_came(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Its end comes before its first report: whoever reads the ledger alone knows it all the same."""
    orders, name = topic("orders"), topic("link")
    topics.create_both(east, west, orders)
    topics.produce(east, orders, topics.some(20, random.Random(3)))

    async def scenario() -> None:
        async with controlled(spark, east, west, name, slots=1, term_s=1.3) as link:
            await link.assign(orders)
            await link.until(lambda: [each.position for each in link.reports.values()] == [20])
            told = ProgressDocument.find_all((await read_documents(link.target, name)).values())
        assert [(each.position, each.source_end) for document in told for each in document.reports] == [(20, 20)]

    asyncio.run(scenario())


def lanes_of_progress(link: Controlled) -> set[LaneKey]:
    """The lanes a lease last told all of."""
    told = [d for d in ProgressDocument.find_all(link.ledger.documents.values()) if d.is_full]
    return {report.key for document in told for report in document.reports}


def test_lanes_move_to_a_slot_that_comes(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """They go from a lease that runs to another one that runs, and nothing is lost or doubled on the way."""
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=4)

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=600.0) as link:
            groups = link.scheduler.distribution.groups
            await link.assign(orders)
            with traffic(east, orders, partitions=range(4)):
                await link.until_records(500)
                link.scheduler._slots.count = 3
                await link.until(lambda: len(groups) == 2 and all(group.lanes for group in groups))
                for partition in range(4):
                    await link.until_written(orders, partition=partition)
            await link.until_copied(orders, partitions=4)
            assert [group.generation for group in groups] == [1, 1]

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=4)


def test_stopping_ends_leases_in_good_order(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """All leases end in good order, so the next controller may begin at once, and knows how the lanes were left."""
    # They are waited for on a machine that does other things too, and nobody's word is waited for in vain: neither when
    # it ends nor when the next one begins.
    timings = LeaseTimings(farewell_s=60.0, revocation_s=600.0)
    orders, link_name = topic("orders"), topic("link")
    topics.create_both(east, west, orders, partitions=4)

    async def scenario() -> None:
        for is_second in (False, True):
            async with controlled(spark, east, west, link_name, slots=3, timings=timings) as link:
                await link.assign(orders)
                with traffic(east, orders, partitions=range(4)):
                    # A former controller's leases are known to be over, so this does not wait for them.
                    await link.until(lambda: sum(report.records > 0 for report in link.reports.values()) == 4)
                    known = {mark.partition for group in link.scheduler._groups for mark in group.marks}
                    assert known == (set(range(4)) if is_second else set())
                    link.scheduling.cancel()
                    # Less than half a second on a machine with nothing else to do.
                    await asyncio.wait_for(asyncio.wait([link.scheduling]), 300.0)
                receipts = list(link.scheduler.receipts)
            assert [receipt.ending for receipt in receipts] == [Ending.REVOKED, Ending.REVOKED]

    asyncio.run(scenario())


def test_a_killed_worker_is_replaced_at_once(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Its process is known to be dead, so nobody has to wait for its term; no record is lost or doubled."""
    timings = LeaseTimings(revocation_s=600.0)
    orders = topic("orders")
    topics.create_both(east, west, orders, partitions=2)

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=600.0, timings=timings) as link:
            await link.assign(orders)
            with traffic(east, orders, partitions=range(2)):
                for _ in range(3):
                    await link.until_records(link.records + 500)
                    # Not one that waits for a task too: the next lease might get it while it dies.
                    kill([task.process.pid for task in TaskDocument.find_all(link.ledger.documents.values())])
                    await link.until(lambda: link.scheduler.problem is not None)
                    link.scheduler.problem = None
                    await link.until_written(orders)
            await link.until_copied(orders, partitions=2)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders, partitions=2)


def test_paused_workers_are_replaced_when_they_cannot_write_any_more(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """They may wake up at any time, so their successor writes only when the rules of the ledger allow it."""
    timings = LeaseTimings(stall_s=8.0)
    orders = topic("orders")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with controlled(spark, east, west, topic("link"), timings=timings) as link:
            await link.assign(orders)
            with traffic(east, orders, records_per_s=50):
                await link.until_records(50)
                pause(python_workers())
                paused_at = loop.time()
                before: list[int] = []
                # What was on its way when they were paused arrives.
                while (now := await link.ends(link.target, orders)) != before:
                    before = now
                    await asyncio.sleep(2)
                await link.until(lambda: link.scheduler.problem is not None)
                assert await link.ends(link.target, orders) == before
                while await link.ends(link.target, orders) == before:
                    assert loop.time() < paused_at + TERM_S
                    await asyncio.sleep(0.05)
                assert loop.time() - paused_at > REVOCATION_S
            await link.until_copied(orders)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders)


def test_a_second_controller_takes_over(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """The first ends with Fenced, its leases end by themselves, and the second's go on where they stopped."""
    orders, link_name = topic("orders"), topic("link")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        async with controlled(spark, east, west, link_name) as first:
            producer = first.scheduler._context.producer
            await first.assign(orders)
            with traffic(east, orders):
                await first.until_records(100)
                async with controlled(spark, east, west, link_name, producer=producer) as second:
                    await second.assign(orders)
                    await second.until_records(500)
                    await asyncio.wait([first.controlling, first.scheduling])
                    for task in (first.controlling, first.scheduling):
                        assert isinstance(task.exception(), Fenced)
                    assert [receipt.ending for receipt in first.scheduler.receipts] == [Ending.SUPERSEDED]

    asyncio.run(scenario())


def test_a_deleted_ledger_stops_nothing(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """The controller writes it again, leases announce themselves again, and hand-overs go on."""
    orders, link_name = topic("orders"), topic("link")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        async with controlled(spark, east, west, link_name, term_s=10.0) as link:
            await link.assign(orders)
            with traffic(east, orders):
                await link.until_records(100)
                state = DeleteTopicsRequest.DeleteTopicState(name=LEDGER_TOPIC, topic_id=NO_TOPIC_ID)
                request = DeleteTopicsRequest(topics=[state], topic_names=[LEDGER_TOPIC], timeout_ms=10_000)
                await link.target.controller(request)
                await link.until(lambda: len(link.scheduler.receipts) >= 2)
            await link.until_copied(orders)
            keys = set(await read_documents(link.target))
            assert {receipt.ending for receipt in link.scheduler.receipts} <= {Ending.SUCCEEDED, Ending.TERM}

        assert {f"{kind}/{link_name}" for kind in ("controller",)} <= keys
        assert {f"{kind}/{link_name}/0" for kind in ("lease", "task", "progress")} <= keys

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders)


def test_a_lane_that_ended_for_good_does_not_disturb_the_others(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """Its state is kept over hand-overs, the other lanes go on."""
    good, foreign = topic("good"), topic("foreign")
    for name in (good, foreign):
        topics.create_both(east, west, name)
        topics.produce(east, name, topics.some(20, random.Random(3)))
    topics.produce(west, foreign, topics.some(5, random.Random(4)))

    async def scenario() -> None:
        async with controlled(spark, east, west, topic("link"), term_s=6.0) as link:
            await link.assign(good, foreign)
            states = {
                LaneKey(TargetTopic(good), 0): LaneState.ACTIVE,
                LaneKey(TargetTopic(foreign), 0): LaneState.FOREIGN_WRITE,
            }
            await link.until(lambda: {key: report.state for key, report in link.reports.items()} == states)
            await link.until(lambda: len(link.scheduler.receipts) >= 2)
            assert link.reports[LaneKey(TargetTopic(foreign), 0)].state is LaneState.FOREIGN_WRITE
            # A lease reports a lane as starting until it has found its place.
            await link.until(lambda: {key: report.state for key, report in link.reports.items()} == states)

    asyncio.run(scenario())
    oracle.assert_same(east, west, good)
