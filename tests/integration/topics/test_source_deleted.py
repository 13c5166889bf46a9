"""A topic is deleted at the source while a link runs: it rests at the target, and nothing is in trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from testing.groups.carrying import records
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.running import Running, configuration_of, ends, link_of, patient, running

pytestmark = pytest.mark.integration


def test_a_deleted_topic_rests_and_is_forgotten(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once, by the run and by `status` alike. What the source has cannot be forgotten; what it has no more
    can, while the link runs, and then nobody tells of it any more. A topic that comes back under its name is another
    one, in whose way the target's stands: that is said at once, and it is set aside where the link says so.
    """
    stem = topic("deleted")
    gone, stays = f"{stem}.gone", f"{stem}.stays"
    for name in (gone, stays):
        topics.create(east, name)
        topics.produce(east, name, records(20))
    link = replace(link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem), on_divergence="recover")
    link = replace(link, topics_interval_s=1.0)
    configuration = configuration_of(link)
    fabric = Fabric(configuration)
    seen: list[LaneState] = []

    async def is_filled_anew(run: Running) -> bool:
        if (state := run.state_of(gone)) is not None and not state.is_calm:
            seen.append(state)
        return await ends(west, gone) == [5]

    async def has_copied() -> bool:
        return await ends(west, gone) == await ends(west, stays) == [20]

    def told() -> LaneState | None:
        (found,) = fabric.status()
        return next((each.state for each in found.topics if each.topic == gone), None)

    async def is_told() -> bool:
        return await asyncio.to_thread(told) is LaneState.SOURCE_DELETED

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(has_copied)
            with pytest.raises(ConfigError, match="mirrors topic"):
                await asyncio.to_thread(fabric.forget, link.name, [gone])
            admin = AdminClient({"bootstrap.servers": east.admin_bootstrap_servers})
            await asyncio.to_thread(admin.delete_topics([gone])[gone].result, TERM_S)
            await run.until(lambda: run.state_of(gone) is LaneState.SOURCE_DELETED)
            await run.until(is_told)
            await run.until(lambda: not run.links[0].is_unfinished)
            assert await ends(west, gone) == [20]
            (forgotten,) = await asyncio.to_thread(fabric.forget, link.name, [gone])
            assert forgotten.topic == gone
            await run.until(lambda: run.topic(gone) is None)
            assert await asyncio.to_thread(told) is None
            await asyncio.to_thread(topics.create, east, gone)
            await asyncio.to_thread(topics.produce, east, gone, records(5, begin=100))
            await run.until(lambda: is_filled_anew(run))
            assert seen[0] is LaneState.TOPIC_RECREATED
            assert not any(state.is_wrong for state in seen)
            held = await asyncio.to_thread(fabric.link(link.name).quarantine, gone)
            assert sum(each.records for each in held) == 20
            assert (await run.end_well()).exit_code == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert sum(f"has {gone} no more" in line for line in caplog.messages) == 1


def test_a_deleted_topic_is_deleted_where_the_link_says_so(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """A topic that somebody else has written to stays, and says why; so do all when all go at once, until an operator
    names one. What was deleted is mirrored again when it comes back.
    """
    stem = topic("goes")
    gone, foreign, *stay = [f"{stem}.{name}" for name in ("gone", "foreign", *map(str, range(7)))]
    for name in (gone, foreign, *stay):
        topics.create(east, name)
        topics.produce(east, name, records(20))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    link = replace(link, on_source_deleted="delete", topics_interval_s=1.0)
    configuration = configuration_of(link)
    fabric = Fabric(configuration)

    async def delete(*names: str) -> None:
        for name in names:
            await asyncio.to_thread(topics.delete, east, name)

    async def are_copied() -> bool:
        return all([await is_at(west, name, 20) for name in (gone, foreign, *stay)])

    async def are_told() -> bool:
        (found,) = await asyncio.to_thread(fabric.status)
        assert {each.state for each in found.topics} == {LaneState.SOURCE_DELETED}
        return all(each.problem is not None for each in found.topics)

    def said(run: Running, name: str) -> str:
        found = run.topic(name)
        return "" if found is None or found.problem is None else found.problem.message

    async def scenario() -> None:
        async with running(configuration, spark, timings=patient(deletion_s=0.5)) as run:
            await run.until(are_copied)
            await delete(gone)
            await run.until(lambda: is_at(west, gone, -1))
            await run.until(lambda: run.topic(gone) is None)
            await asyncio.to_thread(topics.produce, west, foreign, records(1), enable_idempotence=True)
            await delete(foreign)
            await run.until(lambda: "did not write" in said(run, foreign))
            assert run.state_of(foreign) is LaneState.SOURCE_DELETED
            assert await is_at(west, foreign, 21)
            await asyncio.to_thread(fabric.forget, link.name, [foreign])
            await run.until(lambda: run.topic(foreign) is None)
            topics.create(east, gone)
            topics.produce(east, gone, records(5))
            await run.until(lambda: is_at(west, gone, 5))
            await delete(gone, *stay)
            await run.until(lambda: all("without being asked" in said(run, name) for name in (gone, *stay)))
            await run.until(are_told)
            await asyncio.to_thread(fabric.forget, link.name, [gone], delete_at_target=True)
            assert await is_at(west, gone, -1)
            assert await is_at(west, stay[0], 20)
            await run.until(lambda: run.topic(gone) is None)
            assert (await run.end()).exit_code == 1

    asyncio.run(scenario())


async def is_at(cluster: LocalCluster, name: str, end: int) -> bool:
    """Whether a topic of one partition ends there, -1 for one that is not there."""
    return await ends(cluster, name) == [end]
