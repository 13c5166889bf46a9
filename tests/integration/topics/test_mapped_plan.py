"""What is known of mapped topics without a lane at work: by both clusters and by the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, MapDocument
from isthmus.ledger.link import LinkLedger, read_documents
from isthmus.local import LocalCluster
from isthmus.memory.links import recorded_topics
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import LATEST, Cursor, OffsetPolicy
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import plain
from isthmus.model.translation import MappedRange
from isthmus.topics.preflight import TopicMode
from isthmus.topics.recording import build_document
from testing.groups.carrying import declare, records
from testing.records import topics
from testing.records.topics import SEPTEMBER
from testing.runs.running import configuration_of, link_of
from testing.verbs import forget

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def mapped(east: LocalCluster, west: LocalCluster, name: str, *, start: int | None = None) -> Link:
    """A link that maps the offsets of one topic."""
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    settings = replace(link.topics, offsets=OffsetPolicy.MAPPED)
    return replace(link, topics=settings if start is None else replace(settings, start=start))


def segment(link: Link, name: str, ranges: Iterable[MappedRange], copied_end: int) -> MapDocument:
    """A part of the map of a topic's first partition, each under a name of its own."""
    found = tuple(ranges)
    return MapDocument(
        link=link.name,
        topic=TargetTopic(name),
        partition=0,
        segment=f"0.0.{found[0].target_begin}.0",
        ordinal_begin=0,
        ranges=found,
        cursor=Cursor(copied_end, sum(one.length for one in found), found[-1].target_end),
    )


async def remember(link: Link, *documents: Document) -> None:
    """Leave in the ledger what a run leaves there that has mapped the link's topics."""
    async with Client(link.source) as source, Client(link.target) as target:
        ledger = LinkLedger(target, link.name)
        try:
            await ledger.open()
            await declare(link, ledger, source, target)
            recorded = recorded_topics(link.name, ledger.documents)
            mapped_ids = {name: replace(ids, is_mapped=True) for name, ids in recorded.items()}
            await ledger.write(*(build_document(link.name, name, ids) for name, ids in mapped_ids.items()), *documents)
        finally:
            ledger.close()


def test_what_is_to_be_copied_follows_from_the_start(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """From the source's beginning, its end, or the first record that is not older; from there on if it was begun."""
    name = topic("start")
    topics.create_both(east, west, name)
    topics.produce(east, name, records(40))
    topics.produce(west, name, records(7))

    def to_copy(start: int | None) -> int:
        plan = Fabric(configuration_of(mapped(east, west, name, start=start))).plan()
        (planned,) = plan.links[0].topics
        assert (planned.mode, planned.states) == (TopicMode.MAPPED, (LaneState.ACTIVE,))
        return planned.lag_records

    starts = (None, LATEST, SEPTEMBER, SEPTEMBER + 29_500, SEPTEMBER + 3_600_000)
    assert [to_copy(start) for start in starts] == [40, 0, 40, 10, 0]

    link = mapped(east, west, name)
    asyncio.run(remember(link, segment(link, name, [MappedRange(0, 7, 33)], 35)))
    assert [to_copy(start) for start in starts] == [5] * len(starts)


def test_a_map_that_cannot_be_true_stops_no_look(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """How far the lane is does not take a map: plan and status tell it."""
    name = topic("contradiction")
    topics.create_both(east, west, name)
    topics.produce(east, name, records(40))
    link = mapped(east, west, name)
    maps = [segment(link, name, [MappedRange(0, begin, 30)], 30) for begin in (0, 5)]
    asyncio.run(remember(link, *maps))
    fabric = Fabric(configuration_of(link))
    (planned,) = fabric.plan().links[0].topics
    (told,) = fabric.status()[0].topics
    assert (planned.lag_records, told.lag_records, told.is_mapped) == (10, 10, True)


def test_status_tells_mapped_topics_before_they_begin(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """How far they are is not known then, and where the target ends says nothing of it."""
    name = topic("unbegun")
    topics.create_both(east, west, name)
    topics.produce(east, name, records(4))
    topics.produce(west, name, records(9))
    (told,) = Fabric(configuration_of(mapped(east, west, name))).status()[0].topics
    assert (plain(told)["offsets"], plain(told)["lag_records"]) == ("mapped", None)
    assert plain(told)["partitions"][0]["copied_end"] is None


def test_nothing_is_left_of_a_forgotten_topic(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """Its map goes with the rest of what the ledger knows of it; those of other topics stay."""
    stem = topic("forgotten")
    names = [f"{stem}.one", f"{stem}.two"]
    for name in names:
        topics.create_both(east, west, name)
    link = link_of(east.cluster(), west.cluster(), *names, name=stem)
    asyncio.run(remember(link, *(segment(link, name, [MappedRange(0, 0, 3)], 3) for name in names)))
    left = replace(link, topics=replace(link.topics, include=(TopicPattern.parse(names[1]),)))

    async def kept() -> list[str]:
        await forget(left, [names[0]], LedgerSettings())
        async with Client(link.target) as target:
            return [key for key in await read_documents(target) if key.startswith((f"map/{stem}/", f"topic/{stem}/"))]

    assert sorted(asyncio.run(kept())) == [f"map/{stem}/{names[1]}-0/0.0.0.0", f"topic/{stem}/{names[1]}"]


def test_a_leader_that_does_not_answer(east: LocalCluster, west3: LocalCluster, topic: Namer) -> None:
    """A mapped topic is planned with what is not known of one partition; with auto it waits before it begins."""
    name = topic("silent")
    topics.create(east, name, partitions=3)
    topics.create(west3, name, assigned=[[1], [2], [3]])
    link = mapped(east, west3, name)
    auto = replace(link, topics=replace(link.topics, offsets=OffsetPolicy.AUTO))
    broker = west3.broker(3)
    broker.pause()
    try:
        (planned,) = Fabric(configuration_of(link)).plan().links[0].topics
        (waiting,) = Fabric(configuration_of(auto)).plan().links[0].topics
    finally:
        broker.resume()
    assert planned.states == (LaneState.ACTIVE, LaneState.ACTIVE, LaneState.TARGET_UNAVAILABLE)
    assert [p.unexamined is not None for p in planned.partitions] == [False, False, True]
    assert set(waiting.states) == {LaneState.TARGET_UNAVAILABLE}
    assert "not decided yet" in waiting.reasons[0].message
