"""What changes in the configuration while links run is followed, and nothing else is disturbed."""

from __future__ import annotations

import asyncio
import getpass
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.session import ClientSession
from isthmus.local import LocalCluster
from isthmus.memory.filtering import Filters, write_filters
from isthmus.memory.named import Opened
from isthmus.model.configsettings import OF_EACH_CLUSTER, ConfigSettings
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Limits, Link
from isthmus.model.loop import DATA_TASK, LoopState
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import plain
from isthmus.run.following import Following
from testing.groups import consumers
from testing.groups.carrying import records
from testing.links.controllers import leases_of
from testing.records import topics
from testing.runs.running import Running, configuration_of, ends, link_of, patient, running

pytestmark = pytest.mark.integration

LASTING_S = 600.0
"""Leases last, so that one that begins anew was disturbed."""

Namer = Callable[[str], str]
LIVE: Final = {"limits.bytes_per_s": 50_000_000, "mm2.checkpoints": True, "mm2.checkpoints_interval_s": 0.2}


def selecting(link: Link, *names: str) -> Link:
    """The link with these topics."""
    return replace(link, topics=replace(link.topics, include=tuple(map(TopicPattern.parse, names))))


def data_of(run: Running) -> LoopState:
    """How the copying of the only link stands."""
    (found,) = (each.state for each in run.links[0].loops if each.loop == DATA_TASK)
    return found


def test_filters_and_limits_change_without_a_new_lease(
    east: LocalCluster,
    west: LocalCluster,
    topic: Namer,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A topic comes and another goes, groups come, and the lane that was there is copied by the lease it had. What was
    in the way of the topic that goes is in nobody's way any more.
    """
    timings = patient(follow_s=0.2)
    stem = topic("followed")
    stays, goes, comes, group = f"{stem}.stays", f"{stem}.goes", f"{stem}.comes", topic("group")
    for name in (stays, goes, comes):
        topics.create(east, name)
        topics.produce(east, name, records(20))
    consumers.commit(east, {group: {(stays, 0): 7}})
    link = selecting(link_of(east.cluster(), west.cluster(), stays, name=stem), stays, goes)
    written: list[Configuration | ConfigError] = [configuration_of(link, term_s=LASTING_S)]
    taken: list[Configuration] = []

    def reread() -> Configuration:
        found = written[-1]
        if isinstance(found, ConfigError):
            raise found
        return found

    async def is_at(name: str, end: int) -> bool:
        return await ends(west, name) == [end]

    async def scenario() -> None:
        async with running(
            configuration_of(link, term_s=LASTING_S),
            spark,
            following=Following(reread, is_constant=True, on_configuration=taken.append),
            timings=timings,
        ) as run:
            for name in (stays, goes):
                await run.until(partial(is_at, name, 20))
            before = await leases_of(west, stem)
            for cluster in (west, east):
                await asyncio.to_thread(topics.produce, cluster, goes, records(1))
            await run.until(lambda: data_of(run) is LoopState.IN_ERROR)
            stopped = await ends(west, goes)
            changed = replace(
                selecting(link, stays, comes),
                groups=GroupSettings(include=(GroupPattern.parse(group),)),
                limits=Limits(bytes_per_s=50_000_000),
            )
            written.append(configuration_of(changed, term_s=LASTING_S))
            await run.until(lambda: is_at(comes, 20))
            await run.until(lambda: {t.topic for t in run.links[0].topics} == {stays, comes})
            await run.until(lambda: data_of(run) is LoopState.ACTIVE)
            await run.until(lambda: {g.standing for g in run.links[0].groups} == {"IN_STEP"})
            for name in (goes, stays):
                await asyncio.to_thread(topics.produce, east, name, records(5))
            await run.until(lambda: is_at(stays, 25))
            assert await ends(west, goes) == stopped
            # What cannot be used changes nothing.
            written.append(ConfigError("no YAML"))
            await run.until(lambda: "cannot be used" in caplog.text)
            await asyncio.to_thread(topics.produce, east, stays, records(5))
            await run.until(lambda: is_at(stays, 30))
            assert await leases_of(west, stem) == before, "leases began anew"
            assert taken[-1].links == (changed,)
            assert (await run.end_well()).exit_code == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


def test_a_limit_that_is_lifted_counts_at_once(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """In the lease that runs: whatever waits for the former limit goes on."""
    name = topic("lifted")
    topics.create(east, name)
    topics.produce(east, name, records(20))
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    written = [configuration_of(replace(link, limits=Limits(bytes_per_s=1)), term_s=LASTING_S)]

    async def is_at(end: int) -> bool:
        return await ends(west, name) == [end]

    async def scenario() -> None:
        following, timings = Following(lambda: written[-1], is_constant=True), patient(follow_s=0.2)
        async with running(written[0], spark, following=following, timings=timings) as run:
            await run.until(lambda: is_at(20))
            before = await leases_of(west, name)
            await asyncio.to_thread(topics.produce, east, name, records(5))
            written.append(configuration_of(link, term_s=LASTING_S))
            await run.until(lambda: is_at(25))
            assert await leases_of(west, name) == before, "leases began anew"

    asyncio.run(scenario())


def settings_are_told_and_taken_back(fabric: Fabric, link: Link) -> None:
    """What was set of a link is told with who set it, until it is reset; what cannot be set, or is only tried, changes
    nothing.
    """
    told, changing = plain(fabric.plan().links[0])["settings"], fabric.link(link.name)
    assert told is not None
    assert (told["by"], told["changed"]) == (f"{getpass.getuser()}@{socket.gethostname()}", LIVE)
    with pytest.raises(ConfigError, match=r"limits\.nothing cannot be set"):
        changing.change_settings({"limits.nothing": 1})
    dry = changing.change_settings({}, unset=["mm2.checkpoints"], dry_run=True)
    assert "mm2.checkpoints" not in dry.changed
    assert plain(changing.settings().in_force(link))["settings"]["mm2.checkpoints"] is True
    changing.change_settings({}, reset=True)
    assert not changing.settings().changed
    assert plain(fabric.plan().links[0])["settings"] is None


def filters_are_taken_back(fabric: Fabric, link: Link, selected: str) -> None:
    """The link selects again what the file says, and its configurations are those it had."""
    fabric.filter(link.name, Filters(), dry_run=True)
    assert not fabric.filters(link.name).is_as_written
    fabric.filter(link.name, Filters())
    as_written = fabric.plan().links[0]
    assert [topic.topic for topic in as_written.topics] == [selected]
    assert plain(as_written)["filters"] is None
    assert plain(fabric.filters(link.name).in_force(link))["configs_exclude"] == list(OF_EACH_CLUSTER)


def test_an_operator_changes_filters_while_a_link_runs(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """What the ledger has the link select, and go by, holds for the run and for every command, until taken back."""
    stem = topic("filtered")
    stays, comes, group = f"{stem}.stays", f"{stem}.comes", topic("group")
    for name in (stays, comes):
        topics.create(east, name)
        topics.produce(east, name, records(20))
    consumers.commit(east, {group: {(stays, 0): 7}})
    written = link_of(east.cluster(), west.cluster(), stays, name=stem)
    # Topics of MirrorMaker 2 have the alias in their names.
    source = replace(written.source, alias=topic("alias"))
    link = selecting(replace(written, source=source, configs=ConfigSettings(interval_s=0.2)), stays)
    configuration = configuration_of(link, term_s=LASTING_S)
    given = Filters(topics_include=(f"{stem}.*",), groups_include=(group,))

    async def change(filters: Filters) -> None:
        async with ClientSession() as session:
            await write_filters(Opened(configuration, session), link.name, filters)

    async def is_at(name: str, end: int) -> bool:
        return await ends(west, name) == [end]

    def has(setting: str, value: str) -> bool:
        return topics.own_configs(west, comes).get(setting) == value

    async def has_checkpoints() -> bool:
        return max(await ends(west, link.mm2_names.checkpoints)) > 0

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(partial(is_at, stays, 20))
            before = await leases_of(west, stem)
            await change(given)
            await run.until(partial(is_at, comes, 20))
            await run.until(lambda: {g.standing for g in run.links[0].groups} == {"IN_STEP"})
            await change(Filters(topics_exclude=(stays,), configs_exclude=("retention.*",)))
            await run.until(lambda: {t.topic for t in run.links[0].topics} == {comes})
            await asyncio.to_thread(topics.configure, east, comes, retention_ms=123456789, delete_retention_ms=777)
            await run.until(lambda: has("delete.retention.ms", "777"))
            assert not has("retention.ms", "123456789"), "excluded, and set in the same breath"
            await change(Filters(configs_exclude=("flush.*",)))
            await run.until(lambda: has("retention.ms", "123456789"))
            await asyncio.to_thread(Fabric(configuration).link(stem).change_settings, LIVE)
            await run.until(has_checkpoints)
            # The new topic may have got a slot of its own.
            assert before.items() <= (await leases_of(west, stem)).items(), "leases began anew"
        async with running(configuration, spark) as again:
            await again.until(lambda: [t.topic for link in again.links for t in link.topics] == [comes])

    asyncio.run(scenario())
    fabric = Fabric(configuration)
    planned = fabric.plan().links[0]
    assert [topic.topic for topic in planned.topics] == [comes]
    told = plain(planned)["filters"]
    assert told is not None
    assert (told["by"], told["changed"]["topics_exclude"]) == (f"{getpass.getuser()}@{socket.gethostname()}", [stays])
    assert (
        told["changed"]["configs_exclude"]
        == plain(fabric.filters(stem).in_force(link))["configs_exclude"]
        == ["flush.*"]
    )
    assert told["since"] == plain(fabric.filters(stem).in_force(link))["since"] is not None
    settings_are_told_and_taken_back(fabric, link)
    assert [topic.topic for topic in fabric.status()[0].topics] == [comes]
    assert plain(fabric.filters(stem).in_force(link))["topics_exclude"] == [stays]
    with pytest.raises(ConfigError, match="cannot match a topic"):
        fabric.filter(stem, Filters(topics_include=("no topic",)))
    filters_are_taken_back(fabric, link, stays)
