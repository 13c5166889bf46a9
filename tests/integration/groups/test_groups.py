"""Groups are carried by a controller beside its data, and `status` knows how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.lane import LaneState
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records.topics import create, produce
from testing.runs.running import configuration_of, link_of, patient, running

pytestmark = pytest.mark.integration


def test_a_run_until_caught_up_carries_groups_too(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
) -> None:
    """When such a run ends the groups are where the data lets them be, and told to be there, farewell or not."""
    name, group = topic("whole"), topic("whole")
    create(east, name)
    produce(east, name, records(2000))
    consumers.commit(east, {group: {(name, 0): 2000}})
    settings = GroupSettings(include=(GroupPattern.parse(group),))
    link = replace(link_of(east.cluster(), west.cluster(), name, name=name), groups=settings)

    configuration = replace(configuration_of(link), timings=patient(farewell_s=0.0, remember_s=600.0))
    outcome = isthmus.spark.run(spark, configuration, until="caught-up")

    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
    (progress,) = isthmus.open(configuration_of(link)).status()
    assert [(each.group, each.standing) for each in progress.groups] == [(group, "IN_STEP")]

    async def position() -> int:
        async with Client(west.cluster()) as client:
            answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
            return answers.values[group][name, 0].offset

    assert asyncio.run(position()) == 2000


def test_a_controller_carries_groups(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
) -> None:
    """A topic that is not there yet is created, filled, and its group follows; failing groups end no copying."""
    name, group, nowhere = topic("carried"), topic("carried"), topic("nowhere")
    create(east, name)
    create(east, f"other-{name}")
    produce(east, name, records(50))
    consumers.commit(east, {group: {(name, 0): 30}, nowhere: {(f"other-{name}", 0): 0}})
    settings = GroupSettings(include=(GroupPattern.parse(group), GroupPattern.parse(nowhere)))
    link = replace(link_of(east.cluster(), west.cluster(), name, name=name), groups=settings)

    async def position() -> int:
        async with Client(west.cluster()) as client:
            answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
            found = answers.values.get(group, {})
        return found[name, 0].offset if found else -1

    async def scenario() -> None:
        # Later positions are heard of, not found by another look at all groups.
        async with running(configuration_of(link), spark, timings=patient(groups_s=600.0)) as run:

            async def is_at(offset: int) -> bool:
                return await position() == offset

            await run.until(lambda: is_at(30))
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 45}})
            await run.until(lambda: is_at(45))
            await run.until(lambda: {g.standing for g in run.links[0].groups} == {"IN_STEP", "NOT_MIRRORED"})
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    (progress,) = isthmus.open(configuration_of(link)).status()
    assert {each.group: each.standing for each in progress.groups} == {group: "IN_STEP", nowhere: "NOT_MIRRORED"}


def test_groups_are_not_carried_onto_what_is_no_mirror_any_more(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """A partition that somebody else wrote to ends by itself: the ledger knows at once, and groups go on without it."""
    name, group = topic("ended"), topic("ended")
    create(east, name, partitions=2)
    for partition in (0, 1):
        produce(east, name, records(10), partition=partition)
    consumers.commit(east, {group: {(name, 0): 5, (name, 1): 5}})
    settings = GroupSettings(include=(GroupPattern.parse(group),))
    link = replace(link_of(east.cluster(), west.cluster(), name, name=name), groups=settings)

    async def positions() -> dict[int, int]:
        async with Client(west.cluster()) as client:
            answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
            found = answers.values.get(group, {})
        return {partition: committed.offset for (_, partition), committed in found.items()}

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:

            async def are_at(first: int, second: int) -> bool:
                return await positions() == {0: first, 1: second}

            await run.until(lambda: are_at(5, 5))
            await asyncio.to_thread(produce, west, name, records(1, begin=77), partition=1)
            for partition in (0, 1):
                await asyncio.to_thread(produce, east, name, records(5, begin=10), partition=partition)
            await run.until(lambda: run.state_of(name) is LaneState.FOREIGN_WRITE)
            await run.until(is_told)
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 9, (name, 1): 9}})
            await run.until(lambda: are_at(9, 5))
            await run.until(lambda: {g.standing for g in run.links[0].groups} == {"MIRROR_ENDED"})

    async def is_told() -> bool:
        (progress,) = await asyncio.to_thread(isthmus.open(configuration_of(link)).status)
        (told,) = progress.topics
        return [p.state for p in told.partitions] == [LaneState.ACTIVE, LaneState.FOREIGN_WRITE]

    asyncio.run(scenario())
    (progress,) = isthmus.open(configuration_of(link)).status()
    assert [p.state for p in progress.topics[0].partitions] == [LaneState.STOPPED, LaneState.FOREIGN_WRITE]
