"""Configurations of mirrored topics follow the source, on real brokers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from isthmus.configs.loop import ConfigsLoop
from isthmus.configs.properties import PropertyChange
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.loops.loop import LinkView
from isthmus.model.configsettings import ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.link import Link
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import TargetTopic
from isthmus.model.selection import TopicPattern
from isthmus.run.following import Following
from isthmus.topics.plan import LinkPlan
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.running import Running, configuration_of, link_of, patient, running

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
EXCLUDED: Final = PropertyPattern.parse("delete.retention.ms")


def change(cluster: LocalCluster, name: str, **values: str | None) -> None:
    """Set configurations of a topic, `None` removing them; dots are written as underscores."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in values.items()
    ]
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TERM_S)
    wanted = {key.replace("_", "."): value for key, value in values.items()}
    deadline = time.monotonic() + TERM_S
    while any(topics.own_configs(cluster, name).get(key) != value for key, value in wanted.items()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def configs_of(run: Running) -> LoopProgress | None:
    """How the loop stands."""
    return next((loop for link in run.links for loop in link.loops if loop.loop == ConfigsLoop.name), None)


def linked(east: LocalCluster, west: LocalCluster, name: str, settings: ConfigSettings | None = None) -> Link:
    """A link of one topic that compares often."""
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    return replace(link, configs=settings or ConfigSettings(interval_s=0.2))


def test_a_plan_shows_what_a_run_changes(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Set, dropped and kept: the plan foretells it, the run does it, and the next plan has nothing left."""
    name = topic("configs")
    topics.create(east, name, segment_bytes=2000000, compression_type="lz4")
    topics.produce(east, name, topics.some(10, random.Random(1)))
    kept = KeptConfigs(topics=TopicPattern.parse(name), properties=(PropertyPattern.parse("segment.*"),))
    link = linked(east, west, name, ConfigSettings(keep=(kept,)))
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    (after_creation,) = fabric.plan().links
    assert [c.setting for c in after_creation.changes if c.problem is None] == []
    assert "segment.bytes" not in topics.own_configs(west, name)
    change(east, name, retention_ms=None, delete_retention_ms="777")
    change(west, name, segment_bytes="3000000", flush_ms="88888")

    plan = fabric.plan()
    (planned,) = plan.links
    assert plan.has_changes
    found = {c.setting: (c.before, c.after) for c in planned.changes if c.problem is None}
    assert found == {
        "delete.retention.ms": ("86400000", "777"),
        "retention.ms": ("-1", None),
        "flush.ms": ("88888", None),
    }
    (demanded,) = [c for c in planned.changes if c.problem is not None]
    assert (demanded.setting, demanded.before, demanded.after) == ("compression.type", "producer", "lz4")
    assert topics.own_configs(west, name)["flush.ms"] == "88888"

    assert fabric.run(until="caught-up").exit_code == 0
    mirrored = topics.own_configs(west, name)
    assert mirrored["delete.retention.ms"] == "777"
    assert mirrored["segment.bytes"] == "3000000"
    assert not mirrored.keys() & {"flush.ms", "retention.ms", "compression.type"}
    assert not fabric.plan().has_changes
    (progress,) = fabric.status()
    assert [(loop.state, loop.problem) for loop in progress.loops if loop.loop == "configs"] == [
        (LoopState.STOPPED, None)
    ]


def test_sync_topic_configs(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """A change at the source is followed while the link runs, and one at the target set back; what is excluded stays
    there. With sync turned off in the configuration the target keeps what it has from then on.
    """
    name = topic("follows")
    topics.create(east, name, delete_retention_ms="1000", retention_bytes="1000")
    link = linked(east, west, name, ConfigSettings(interval_s=0.2, exclude=(EXCLUDED,)))
    written = [link]
    following = Following(lambda: configuration_of(*written), is_constant=True)

    async def scenario() -> None:
        async with running(configuration_of(link), spark, following=following, timings=patient(follow_s=0.2)) as run:
            await run.until(lambda: (found := configs_of(run)) is not None and found.state is LoopState.ACTIVE)
            # The loop may have looked before the topic was created.
            await run.until(lambda: name in topics.names(west))
            assert "delete.retention.ms" not in topics.own_configs(west, name)
            topics.configure(west, name, delete_retention_ms="2000", retention_bytes="2000")
            await asyncio.to_thread(change, east, name, retention_ms="123456789")
            set_back = {"delete.retention.ms": "2000", "retention.bytes": "1000", "retention.ms": "123456789"}
            await run.until(lambda: set_back.items() <= topics.own_configs(west, name).items())
            written[0] = replace(link, configs=replace(link.configs, sync=False))
            await run.until(lambda: (found := configs_of(run)) is not None and found.state is LoopState.NOT_CONFIGURED)
            await asyncio.to_thread(change, west, name, retention_ms="5555555")
            await asyncio.to_thread(change, east, name, retention_ms="6666666")
            written[0] = replace(link, configs=replace(link.configs, use_defaults_from="source"))
            await run.until(lambda: topics.own_configs(west, name).get("retention.ms") == "6666666")

    asyncio.run(scenario())


def test_replicate_source_default(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """With `use_defaults_from: source` the source's defaults take the place of what is set at the target, but for what
    is excluded; what nobody has set is written too.
    """
    name = topic("defaults")
    topics.create(east, name)
    topics.create(west, name, delete_retention_ms="2000", retention_bytes="2000")
    link = linked(east, west, name, ConfigSettings(use_defaults_from="source", exclude=(EXCLUDED,)))
    assert Fabric(configuration_of(link), spark=spark).run(until="caught-up").exit_code == 0
    mirrored = topics.own_configs(west, name)
    assert (mirrored["retention.bytes"], mirrored["delete.retention.ms"]) == ("-1", "2000")


def test_replicate_target_default(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """What the source sets no longer falls back to the target's default."""
    name = topic("dropped")
    topics.create(east, name, retention_bytes="1000")
    fabric = Fabric(configuration_of(linked(east, west, name)), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    assert topics.own_configs(west, name)["retention.bytes"] == "1000"
    change(east, name, retention_bytes=None)
    assert fabric.run(until="caught-up").exit_code == 0
    assert "retention.bytes" not in topics.own_configs(west, name)


def test_a_value_that_brokers_refuse_keeps_no_other_from_being_set(west: LocalCluster, topic: Namer) -> None:
    """All values of a topic are refused for one, so each is tried by itself; that one is told, as it is, and why."""
    name = topic("refused")
    hostile = f"many[bold]\n\x1b[2J\u202e имя{'x' * 10_000}"
    topics.create(west, name)
    link = linked(west, west, name)
    changes = [
        PropertyChange(
            loop="configs",
            subject=f"topic {name}",
            setting=setting,
            before=None,
            after=after,
            topic=TargetTopic(name),
        )
        for setting, after in (("retention.ms", "44444444"), ("retention.bytes", hostile))
    ]

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            plan = LinkPlan(link=name, source="east", target="west")
            view = LinkView(link=link, source=source, target=target, plan=plan)
            (left,) = await ConfigsLoop().apply(view, changes)
        assert (left.setting, left.after) == ("retention.bytes", hostile)
        assert left.problem is not None
        assert "INVALID_CONFIG" in left.problem.message

    asyncio.run(scenario())
    deadline = time.monotonic() + TERM_S
    while topics.own_configs(west, name).get("retention.ms") != "44444444":
        assert time.monotonic() < deadline
