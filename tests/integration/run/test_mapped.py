"""Links whose topics get other offsets at the target: planned, run, shown and verified as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.errors import GateNotMet
from isthmus.kafka.admin.changes import add_partitions, await_leaders
from isthmus.kafka.client import Client
from isthmus.ledger.link import read_documents
from isthmus.ledger.maps import lane_maps
from isthmus.local import LocalCluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.naming import PrefixNaming, TargetTopic
from isthmus.model.offsets import LATEST, OffsetPolicy
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import plain
from isthmus.model.translation import OffsetMap
from isthmus.topics.preflight import TopicMode
from testing.groups.carrying import records
from testing.records.topics import create, create_both, delete, produce
from testing.runs.mapping import assert_mapped
from testing.runs.running import configuration_of, link_of
from testing.verbs import forget, pause

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def mapped(link: Link, **settings: Any) -> Link:
    """The link with mapped offsets."""
    return replace(link, topics=replace(link.topics, **{"offsets": OffsetPolicy.MAPPED} | settings))


async def map_of(target: LocalCluster, link: str, topic: str) -> OffsetMap:
    """Where the records of a topic's first partition went, as the ledger has it."""
    async with Client(target.cluster()) as client:
        return lane_maps(link, await read_documents(client))[LaneKey(TargetTopic(topic), 0)].offsets


def test_a_topic_that_holds_data_gets_more(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """It is refused with the same offsets and copied with mapped ones; plan, status and a second run agree on it."""
    name = topic("behind")
    create_both(east, west, name, partitions=2)
    produce(west, name, records(30, begin=1000))
    produce(east, name, records(200))
    produce(east, name, records(5), partition=1)
    same = link_of(east.cluster(), west.cluster(), name, name=name)
    (refused,) = isthmus.open(configuration_of(same), spark=spark).plan().links[0].topics
    assert (refused.mode, refused.lag_records) == (TopicMode.IDENTITY, 5)
    assert refused.states == (LaneState.FOREIGN_WRITE, LaneState.ACTIVE)
    fabric = isthmus.open(configuration_of(mapped(same)), spark=spark)
    (planned,) = fabric.plan().links[0].topics
    assert (planned.mode, planned.lag_records, planned.has_refusals) == (TopicMode.MAPPED, 205, False)

    for count, more in ((205, 0), (40, 40)):
        produce(east, name, records(more, begin=200))
        outcome = fabric.run(until="caught-up")
        assert (outcome.exit_code, outcome.is_caught_up, outcome.records) == (0, True, count)

    (told,) = fabric.status()[0].topics
    assert (told.is_mapped, told.lag_records, [p.copied_end for p in told.partitions]) == (True, 0, [240, 5])
    assert [p.target_end for p in told.partitions] == [270, 5]
    assert plain(told)["offsets"] == "mapped"
    assert not fabric.plan().has_changes
    others = assert_mapped(east, west, name, name, asyncio.run(map_of(west, name, name)))
    assert len(others) == 30
    (verdict,) = fabric.verify()[name].topics
    assert verdict.is_equal


def test_two_links_share_a_topic(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """Both map their offsets, in one run; a third that would keep its own is refused."""
    name = topic("shared")
    links = []
    for prefix in ("one-", "two-"):
        create(east, f"{prefix}{name}")
        produce(east, f"{prefix}{name}", records(100))
        link = link_of(east.cluster(), west.cluster(), f"{prefix}{name}", name=f"{prefix}{name}")
        links.append(mapped(link, naming=PrefixNaming(source_prefix=prefix)))
    create(east, name)
    third = link_of(east.cluster(), west.cluster(), name, name=f"third-{name}")
    fabric = isthmus.open(configuration_of(*links, third), spark=spark)
    plans = fabric.plan().links
    assert [plan.topics[0].mode for plan in plans] == [TopicMode.MAPPED, TopicMode.MAPPED, TopicMode.REFUSED]
    assert "writes this target topic already" in plans[2].topics[0].reasons[0].message

    outcome = isthmus.open(configuration_of(*links), spark=spark).run(until="caught-up")

    assert (outcome.exit_code, outcome.records) == (0, 200)
    for link in links:
        source = link.name
        assert len(assert_mapped(east, west, source, name, asyncio.run(map_of(west, link.name, name)))) == 100


def test_what_can_have_its_offsets_keeps_them(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """With auto a new topic keeps them, one that holds data does not, and each stays as it was begun."""
    stem = topic("auto")
    new, held = f"{stem}.new", f"{stem}.held"
    create(east, new)
    create_both(east, west, held)
    for name in (new, held):
        produce(east, name, records(50))
    produce(west, held, records(5))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    auto = mapped(link, offsets=OffsetPolicy.AUTO)
    fabric = isthmus.open(configuration_of(auto), spark=spark)
    wanted = {new: TopicMode.IDENTITY, held: TopicMode.MAPPED}
    planned = {t.topic: t for t in fabric.plan().links[0].topics}
    assert {name: each.mode for name, each in planned.items()} == wanted
    assert "written to before" in planned[TargetTopic(held)].notes[0].message

    assert fabric.run(until="caught-up").exit_code == 0

    again = {t.topic: t.mode for t in fabric.plan().links[0].topics}
    assert again == wanted
    other = mapped(link, include=(TopicPattern.parse(new),))
    (refused,) = isthmus.open(configuration_of(other), spark=spark).plan().links[0].topics
    assert refused.reasons[0].message == "the topic was begun with the source's offsets, and is now to have mapped ones"
    back = mapped(link, offsets=OffsetPolicy.SAME, include=(TopicPattern.parse(held),))
    (refused,) = isthmus.open(configuration_of(back), spark=spark).plan().links[0].topics
    assert refused.reasons[0].message == "the topic was begun with mapped offsets, and is now to have the source's"


async def widened(cluster: LocalCluster, topic: str) -> None:
    """Give a topic a second partition."""
    async with Client(cluster.cluster()) as client:
        await add_partitions(client, {topic: 2})
        await await_leaders(client, {topic: 2})


def test_a_link_begins_at_the_end(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """With start: latest nothing is copied of what was there before, and nothing is missed that comes later, topics and
    partitions among it that came while the link did not run.
    """
    name = topic("latest")
    create(east, name)
    produce(east, name, records(80))
    link = mapped(link_of(east.cluster(), west.cluster(), f"{name}*", name=name), start=LATEST)
    fabric = isthmus.open(configuration_of(link), spark=spark)
    assert fabric.plan().links[0].topics[0].lag_records == 0
    assert fabric.run(until="caught-up").records == 0
    produce(east, name, records(20, begin=80))
    assert fabric.plan().links[0].topics[0].lag_records == 20
    create(east, f"{name}-later")
    produce(east, f"{name}-later", records(5))
    asyncio.run(widened(east, name))
    produce(east, name, records(7), partition=1)
    planned = fabric.plan().links[0].topics
    assert [topic.lag_records for topic in planned] == [27, 5]
    assert fabric.run(until="caught-up").records == 32
    assert assert_mapped(east, west, name, name, asyncio.run(map_of(west, name, name)), begin=80) == []


def test_a_paused_topic_has_caught_up_by_its_map(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Where its target ends says nothing: others wrote there, and what the source has got since is not copied."""
    name = topic("paused")
    create_both(east, west, name)
    produce(east, name, records(20))
    configuration = configuration_of(mapped(link_of(east.cluster(), west.cluster(), name, name=name)))
    fabric = isthmus.open(configuration, spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    produce(west, name, records(50))
    asyncio.run(pause(configuration.links[0]))
    assert fabric.run(until="caught-up").is_caught_up

    produce(east, name, records(5, begin=20))

    outcome = fabric.run(until="caught-up")
    assert (outcome.is_caught_up, outcome.exit_code, outcome.records) == (False, GateNotMet.exit_code, 0)
    assert fabric.status()[0].topics[0].lag_records == 5


def test_a_target_that_was_made_anew_begins_anew(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """What the ledger knows of the topic that had the name before says nothing of the one that has it now."""
    name = topic("again")
    create(east, name)
    produce(east, name, records(60))
    link = mapped(link_of(east.cluster(), west.cluster(), name, name=name))
    fabric = isthmus.open(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").records == 60
    delete(west, name)

    outcome = fabric.run(until="caught-up")

    assert (outcome.exit_code, outcome.records) == (0, 60)
    assert assert_mapped(east, west, name, name, asyncio.run(map_of(west, name, name))) == []


def test_a_topic_that_was_forgotten_begins_anew(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Selected again, with another source and the same target, all of it is copied behind what was there before."""
    name, other = topic("forgotten"), topic("other")
    for each in (name, other):
        create(east, each)
    produce(east, name, records(60))
    link = mapped(link_of(east.cluster(), west.cluster(), name, other, name=name))
    fabric = isthmus.open(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").records == 60
    delete(east, name)
    create(east, name)
    produce(east, name, records(100, begin=1000))
    (refused,) = [t for t in fabric.plan().links[0].topics if t.topic == name]
    assert refused.mode is TopicMode.REFUSED
    asyncio.run(forget(mapped(link, include=(TopicPattern.parse(other),)), [name], LedgerSettings()))

    for count, more in ((100, 10), (10, 0)):
        outcome = fabric.run(until="caught-up")
        assert (outcome.exit_code, outcome.records) == (0, count)
        produce(east, name, records(more, begin=2000))

    assert len(assert_mapped(east, west, name, name, asyncio.run(map_of(west, name, name)))) == 60
    assert fabric.verify(topics=[name])[name].topics[0].is_equal
