"""Topics are mirrored under other names: the same records at the same offsets, groups and operators included."""

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
from isthmus.model.kafka.findings import Level
from isthmus.model.lane import LaneState
from isthmus.model.naming import MirrorMakerNaming, NameTemplate, Naming, PrefixNaming, TemplateNaming
from isthmus.model.selection import TopicPattern
from isthmus.topics.plan import Action
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import oracle
from testing.records.topics import create, produce
from testing.runs.running import configuration_of, ends, link_of, running
from testing.verbs import examine, pause, resume

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


@pytest.mark.parametrize(
    ("naming", "before", "after"),
    [
        (PrefixNaming(source_prefix="local-", target_prefix="remote-"), "local-{}", "remote-{}"),
        (MirrorMakerNaming(source_alias="east", target_alias="west"), "{}", "east.{}"),
        (
            TemplateNaming(
                source=NameTemplate.parse("{tenant}-live-{topic}"), target=NameTemplate.parse("{topic}.{tenant}")
            ),
            "acme-live-{}",
            "{}.acme",
        ),
    ],
    ids=["prefixes", "mm2", "templates"],
)
def test_a_link_renames_topics(
    east: LocalCluster,
    west: LocalCluster,
    topic: Namer,
    spark: SparkSession,
    naming: Naming,
    before: str,
    after: str,
) -> None:
    """Records, groups, status and verification follow the names; nothing is left to do afterwards."""
    stem, group = topic("named"), topic("named")
    source, target = before.format(stem), after.format(stem)
    create(east, source, partitions=2)
    produce(east, source, records(300))
    consumers.commit(east, {group: {(source, 0): 100}})
    link = link_of(east.cluster(), west.cluster(), source, name=stem)
    link = replace(
        link,
        topics=replace(link.topics, naming=naming),
        groups=GroupSettings(include=(GroupPattern.parse(group),)),
    )
    configuration = configuration_of(link)
    fabric = isthmus.open(configuration, spark=spark)
    (planned,) = fabric.plan().links[0].topics
    assert (planned.topic, planned.source_topic, planned.action) == (target, source, Action.CREATE)

    outcome = fabric.run(until="caught-up")

    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
    assert oracle.records(west.admin_bootstrap_servers, target) == oracle.records(east.admin_bootstrap_servers, source)
    assert asyncio.run(ends(west, source)) == [-1]
    (told,) = fabric.status()[0].topics
    assert (told.topic, told.source_topic, told.lag_records) == (target, source, 0)
    for named in (source, target):
        (verdict,) = fabric.verify(topics=[named])[stem].topics
        assert (verdict.source_topic, verdict.target_topic, verdict.is_equal) == (source, target, True)
    assert not fabric.plan().has_changes
    findings = asyncio.run(examine(configuration))
    assert [finding for finding in findings if finding.level is Level.ERROR] == []
    drilled = fabric.groups.drill(group)
    assert (drilled.skipped, drilled.read_again, drilled.not_mirrored) == (0, 0, ())
    assert [position.compared for position in drilled.positions] == [200]
    assert asyncio.run(ends(east, target)) == [-1]

    async def position() -> int:
        async with Client(west.cluster()) as client:
            answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
            return answers.values[group][target, 0].offset

    assert asyncio.run(position()) == 100


def test_two_links_name_as_mirror_maker_does(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """In both directions at once, of one name: each topic is copied once, and none comes back."""
    name = topic("both")
    for cluster, count in ((east, 50), (west, 70)):
        create(cluster, name)
        produce(cluster, name, records(count))
    links = []
    for source, target in ((east, west), (west, east)):
        naming = MirrorMakerNaming(source_alias=source.cluster().alias, target_alias=target.cluster().alias)
        link = link_of(source.cluster(), target.cluster(), f"/.*{name}/", name=f"{name}-{source.cluster().alias}")
        links.append(replace(link, topics=replace(link.topics, naming=naming)))
    fabric = isthmus.open(configuration_of(*links), spark=spark)
    for _ in range(2):
        outcome = fabric.run(until="caught-up")
        assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
        assert [[t.topic for t in link.topics] for link in outcome.links] == [[f"east.{name}"], [f"west.{name}"]]
    assert oracle.records(west.admin_bootstrap_servers, f"east.{name}") == oracle.records(
        east.admin_bootstrap_servers, name
    )
    assert oracle.records(east.admin_bootstrap_servers, f"west.{name}") == oracle.records(
        west.admin_bootstrap_servers, name
    )


def test_what_names_make_impossible_is_refused(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Topics that would meet, one that is named although the naming leaves it out, and one that was made of another
    before, are refused and told; others are copied.
    """
    stem = topic("meet")
    nameless = f"{stem}_other"
    for name in (f"{stem}.a-live", f"{stem}.b-live", f"{stem}.c-test", nameless):
        create(east, name)
        produce(east, name, records(5))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    link = replace(link, topics=replace(link.topics, include=(*link.topics.include, TopicPattern.parse(nameless))))
    meeting = TemplateNaming(source=NameTemplate.parse("{t}.{x}-{env}"), target=NameTemplate.parse("{t}.{env}"))
    link = replace(link, topics=replace(link.topics, naming=meeting))
    fabric = isthmus.open(configuration_of(link), spark=spark)
    refused = {str(each.topic): each.reasons[0].message for each in fabric.plan().links[0].topics if each.reasons}
    assert "is not of the form {t}.{x}-{env}" in refused[nameless]
    outcome = fabric.run(until="caught-up")
    assert outcome.exit_code == 1
    assert asyncio.run(ends(west, f"{stem}.live")) == [-1]
    assert asyncio.run(ends(west, f"{stem}.test")) == [5]
    told = {t.topic: t for t in fabric.status()[0].topics}
    assert {name: t.state for name, t in told.items()} == {
        f"{stem}.live": LaneState.REFUSED,
        f"{stem}.test": LaneState.STOPPED,
        nameless: LaneState.REFUSED,
    }
    other = TemplateNaming(source=NameTemplate.parse("{t}.b-{env}"), target=NameTemplate.parse("{t}.test"))
    changed = replace(link, topics=replace(link.topics, naming=other))
    (planned, _) = isthmus.open(configuration_of(changed)).plan().links[0].topics
    assert f"was made of {stem}.c-test" in planned.reasons[0].message


def test_a_renamed_topic_is_paused_by_either_name(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """An operator says the name that is at hand; the pause is that of the topic at the target."""
    name = topic("calm")
    create(east, name)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    link = replace(link, topics=replace(link.topics, naming=PrefixNaming(target_prefix="copy-")))

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:
            await run.until(lambda: run.state_of(f"copy-{name}") is LaneState.ACTIVE)
            for paused, resumed in ((name, f"copy-{name}"), (f"copy-{name}", name)):
                await pause(link, topic=paused)
                await run.until(lambda: run.state_of(f"copy-{name}") is LaneState.PAUSED)
                assert (await resume(link, topic=resumed)).was_paused
                await run.until(lambda: run.state_of(f"copy-{name}") is LaneState.ACTIVE)

    asyncio.run(scenario())
