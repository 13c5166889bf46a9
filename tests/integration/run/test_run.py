"""Whole runs: controller, ledger, Spark and lanes together, on real brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark import SparkContext
from pyspark.sql import SparkSession

import isthmus.spark
from isthmus.errors import ConfigError, JavaMissing, Unreachable
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.loops import LoopDocument
from isthmus.local import LocalCluster
from isthmus.memory.links import recollect
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.loop import LoopState
from isthmus.model.naming import TargetTopic
from isthmus.model.state import LinkState
from testing import verbs
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import Running, configuration_of, ends, link_of, patient, running

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
SILENCE_S = 30.0


def records(count: int) -> list[Given]:
    """Small records with keys."""
    return [Given(b"%d" % (n % 7), b"value %d" % n, [], topics.SEPTEMBER + n) for n in range(count)]


async def has_ends(cluster: LocalCluster, name: str, *expected: int) -> bool:
    """Whether the partitions of a topic end there."""
    return await ends(cluster, name, partitions=len(expected)) == list(expected)


def add_partitions(cluster: LocalCluster, name: str, count: int) -> None:
    """Enlarge a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    admin.create_partitions([NewPartitions(name, count)])[name].result(TERM_S)
    topics.await_served(cluster, name, partitions=count)


async def tasks_apart(
    run: Running, link: Link, clusters: tuple[LocalCluster, LocalCluster], names: tuple[str, str]
) -> None:
    """While no topics are created and no configurations follow, records do; and the other way round."""
    (east, west), (first, third) = clusters, names

    def tasks() -> dict[str, LoopState]:
        return {loop.loop: loop.state for link in run.links for loop in link.loops}

    async def paused(*names: str) -> None:
        for name in names:
            assert not await verbs.pause(link, task=name)
        await run.until(lambda: {name for name, state in tasks().items() if state is LoopState.PAUSED} == {*names})
        # A pass may be under way that began before: how a task stands is written when it has ended.
        if "configs" in names:
            await run.until(configs_rest)

    async def configs_rest() -> bool:
        async with Client(link.target) as client:
            written = (await recollect(link.name, client)).documents.values()
        states = {each.loop: each.state for each in LoopDocument.find_all(written)}
        return states["configs"] == LoopState.PAUSED

    async def resumed(*names: str) -> None:
        for name in names:
            assert (await verbs.resume(link, task=name)).was_paused

    (end,) = await ends(west, first)
    await paused("topics", "configs")
    await asyncio.to_thread(topics.create, east, third)
    await asyncio.to_thread(topics.configure, east, first, retention_ms="123456789")
    await asyncio.to_thread(topics.produce, east, first, records(5))
    await run.until(lambda: has_ends(west, first, end + 5))
    assert third not in topics.names(west)
    assert topics.own_configs(west, first)["retention.ms"] == "-1"
    await resumed("configs", "topics")
    await run.until(lambda: has_ends(west, third, 0))
    await run.until(lambda: topics.own_configs(west, first)["retention.ms"] == "123456789")
    # Whatever is paused or resumed has the others look.
    await asyncio.to_thread(topics.configure, east, first, retention_ms="-1")
    await paused("data")
    assert run.state_of(first) is LaneState.PAUSED
    await run.until(lambda: topics.own_configs(west, first)["retention.ms"] == "-1")
    with pytest.raises(ConfigError, match="no task 'verify'"):
        await paused("verify")
    await resumed("data")
    await run.until(lambda: run.state_of(first) is LaneState.ACTIVE)


def test_run_until_caught_up(east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer) -> None:
    """What is missing is created, everything is copied, and then nothing is left to do."""
    stem = topic("run")
    topics.create(east, f"{stem}.a", partitions=2)
    topics.create(east, f"{stem}.b", cleanup_policy="compact")
    for partition in range(2):
        topics.produce(east, f"{stem}.a", records(1000), partition=partition)
    topics.produce(east, f"{stem}.b", records(500))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.plan().has_changes
    outcome = isthmus.spark.run(spark, configuration_of(link), until="caught-up")
    assert (outcome.exit_code, outcome.is_caught_up, outcome.records) == (0, True, 2500)
    assert not fabric.plan().has_changes
    assert asyncio.run(ends(west, f"{stem}.a", partitions=2)) == [1000, 1000]
    assert asyncio.run(ends(west, f"{stem}.b")) == [500]
    deadline = time.monotonic() + SILENCE_S
    # The controller says that it has ended; what it cannot say on a starved machine its silence does.
    while (status := fabric.status()[0]).state is not LinkState.STOPPED:
        assert time.monotonic() < deadline
    assert [t.lag_records for t in status.topics] == [0, 0]
    again = fabric.run(until="caught-up")
    assert (again.exit_code, again.records) == (0, 0)

    def verified() -> LoopState:
        return next(loop.state for loop in fabric.status()[0].loops if loop.loop == "verify")

    assert verified() is LoopState.NOT_CONFIGURED
    assert fabric.verify()[stem].equal
    assert verified() is LoopState.ACTIVE
    topics.produce(west, f"{stem}.b", records(1))
    assert not fabric.verify(topics=[f"{stem}.b"])[stem].equal
    # That was one topic of two.
    assert verified() is LoopState.ACTIVE
    assert not fabric.verify()[stem].equal
    assert verified() is LoopState.IN_ERROR


def test_gap_is_recorded_for_good(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """What the source deleted before it was copied is told by every status that follows, if the link is to go on.

    That is so when the run is caught up: it depends neither on its farewell nor on a later look at the topics.
    """
    name = topic("gap")
    topics.create(east, name)
    topics.produce(east, name, records(30))
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    link = replace(link, on_data_gap="continue", topics_interval_s=600.0)
    fabric = Fabric(replace(configuration_of(link), timings=patient(farewell_s=0.0)), spark=spark)
    assert fabric.run(until="caught-up").records == 30
    topics.produce(east, name, records(70))
    topics.delete_records(east, name, 57)
    # No farewell was said, so the one before may still run for all that is known.
    outcome = fabric.run(until="caught-up", take_over=True)
    assert (outcome.exit_code, outcome.records) == (0, 43)
    assert fabric.run(until="caught-up", take_over=True).records == 0
    (status,) = fabric.status()
    assert [partition.gaps for t in status.topics for partition in t.partitions] == [(Gap(30, 57),)]


def test_refused_topic_leaves_the_others(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """A topic that cannot be mirrored makes the run end with 1; the others are copied all the same."""
    stem = topic("refused")
    for name in ("bad", "good"):
        topics.create(east, f"{stem}.{name}")
        topics.produce(east, f"{stem}.{name}", records(10))
    topics.create(west, f"{stem}.bad", compression_type="lz4")
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    fabric = Fabric(configuration_of(link), spark=spark)
    outcome = fabric.run(until="caught-up")
    assert outcome.exit_code == 1
    assert asyncio.run(ends(west, f"{stem}.good")) == [10]
    assert asyncio.run(ends(west, f"{stem}.bad")) == [0]
    told = {t.topic: t for t in fabric.status()[0].topics}[TargetTopic(f"{stem}.bad")]
    assert told.state is LaneState.REFUSED
    assert told.problem is not None
    assert "compression.type" in told.problem.message


def test_topics_come_grow_and_pause_while_it_runs(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """New topics run within seconds, partitions follow, pauses hold, and no lane is disturbed; all of it is counted."""
    stem = topic("live")
    first, second = f"{stem}.first", f"{stem}.second"
    topics.create(east, first)
    topics.produce(east, first, records(10))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)

    is_at = partial(has_ends, west)

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:
            await run.until(lambda: is_at(first, 10))
            await asyncio.to_thread(topics.create, east, second, partitions=2)
            await asyncio.to_thread(topics.produce, east, second, records(5), partition=1)
            await run.until(lambda: is_at(second, 0, 5))
            await verbs.pause(link, topic=second)
            await run.until(lambda: run.state_of(second) is LaneState.PAUSED)
            await run.until_resting(link, second)
            await asyncio.to_thread(topics.produce, east, second, records(5))
            await asyncio.to_thread(topics.produce, east, first, records(10))
            await run.until(lambda: is_at(first, 20))
            assert await is_at(second, 0, 5)
            await verbs.resume(link, topic=second)
            await run.until(lambda: is_at(second, 5, 5))
            await verbs.pause(link, namespace=f"{stem}.s")
            await run.until(lambda: run.state_of(second) is LaneState.PAUSED)
            assert run.state_of(first) is LaneState.ACTIVE
            assert (await verbs.resume(link, namespace=f"{stem}.s")).was_paused
            await run.until(lambda: run.state_of(second) is LaneState.ACTIVE)
            await tasks_apart(run, link, (east, west), (first, f"{stem}.third"))
            await asyncio.to_thread(add_partitions, east, first, 2)
            await asyncio.to_thread(topics.produce, east, first, records(3), partition=1)
            await run.until(lambda: is_at(first, 25, 3))
            await asyncio.to_thread(topics.delete, west, first)
            await run.until(lambda: run.state_of(first) is LaneState.TOPIC_RECREATED)
            await asyncio.to_thread(topics.produce, east, second, records(1))
            await run.until(lambda: is_at(second, 6, 5))
            outcome = await run.end()
            assert outcome.exit_code == 1
            assert run.counts == sorted(run.counts)
            assert outcome.records == 10 + 5 + 10 + 5 + 5 + 3 + 1

    asyncio.run(scenario())


def test_link_that_fails_stops_no_other(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """A cluster that does not answer and a link into itself leave the other links running."""
    name = topic("sound")
    topics.create(east, name)
    topics.produce(east, name, records(10))
    nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
    twin = Cluster(alias="twin", bootstrap_servers=east.cluster().bootstrap_servers)
    configuration = configuration_of(
        link_of(east.cluster(), west.cluster(), name, name=f"{name}-sound"),
        link_of(nowhere, west.cluster(), "other", name=f"{name}-away"),
        link_of(east.cluster(), twin, name, name=f"{name}-same"),
    )

    async def is_at(end: int) -> bool:
        return await ends(west, name) == [end]

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(lambda: is_at(10))
            states = [LinkState.ACTIVE, LinkState.UNAVAILABLE, LinkState.FAILED]
            await run.until(lambda: [link.state for link in run.links] == states)
            outcome = await run.end()
            assert list(outcome.errors) == [f"{name}-same"]
            assert "same cluster" in outcome.errors[f"{name}-same"].message

    asyncio.run(scenario())


def test_foreign_write_into_an_idle_topic_is_found(
    east: LocalCluster,
    west: LocalCluster,
    spark: SparkSession,
    topic: TopicNamer,
) -> None:
    """A record that somebody else puts into a mirrored partition stops that lane, written to or not. It is never told
    as anything else, nor by the next run, nor is the topic made anew where that is to be done for what the source lost.
    """
    stem = topic("foreign")
    idle, busy = f"{stem}.idle", f"{stem}.busy"
    for name in (idle, busy):
        topics.create(east, name)
        topics.produce(east, name, records(10))
    link = replace(link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem), on_divergence="recover")
    seen: set[LaneState | None] = set()

    async def is_at(name: str, end: int) -> bool:
        return await ends(west, name) == [end]

    def is_found(run: Running) -> bool:
        seen.add(run.state_of(idle))
        return run.state_of(idle) is LaneState.FOREIGN_WRITE

    async def is_told(run: Running) -> bool:
        """Whether the lane itself has looked."""
        is_found(run)
        async with Client(west.cluster()) as target:
            report = (await recollect(stem, target)).reports.get(LaneKey(TargetTopic(idle), 0))
        return report is not None and report.state is LaneState.FOREIGN_WRITE

    async def scenario() -> None:
        async with running(configuration_of(link), spark, timings=patient(audit_s=0.5)) as run:
            await run.until(lambda: is_at(idle, 10))
            await asyncio.to_thread(topics.produce, west, idle, [Given(b"key", b"foreign", [], topics.SEPTEMBER)])
            await run.until(lambda: is_told(run))
            await run.until_resting(link, idle)
        async with running(configuration_of(link), spark) as run:
            await run.until(lambda: is_found(run))
            assert seen <= {None, LaneState.ACTIVE, LaneState.STARTING, LaneState.FOREIGN_WRITE}
            await asyncio.to_thread(topics.produce, east, idle, records(5))
            await asyncio.to_thread(topics.produce, east, busy, records(10))
            await run.until(lambda: is_at(busy, 20))
            assert await is_at(idle, 11)
            assert (await run.end()).exit_code == 1

    asyncio.run(scenario())


def test_clusters_that_never_answer_end_the_run(west: LocalCluster, spark: SparkSession, topic: TopicNamer) -> None:
    """Nobody waits for ever for a cluster that was never there."""
    nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
    link = link_of(nowhere, west.cluster(), "orders", name=topic("nowhere"))
    configuration = replace(configuration_of(link), timings=patient(arrival_s=1.0))
    outcome = Fabric(configuration, spark=spark).run()
    assert outcome.exit_code == Unreachable.exit_code
    assert "nowhere" in outcome.errors[link.name].message


def test_missing_java_ends_the_run(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without Java there is no Spark: the run says so at once, with an exit code of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    # A session that another test left behind would be found, and the run would go on in it.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    link = link_of(east.cluster(), west.cluster(), "orders", name=topic("javaless"))
    outcome = Fabric(configuration_of(link)).run()
    assert outcome.exit_code == JavaMissing.exit_code
