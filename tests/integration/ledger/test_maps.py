"""The maps of mapped lanes as leases keep them in a real ledger."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.engine.mapped.places import Known
from isthmus.engine.mapped.transit import Transit
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MapDocument, TaskDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.maps import lane_map
from isthmus.ledger.topic import LEDGER_TOPIC, ensure_topic, on_topic
from isthmus.local import LocalCluster
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange
from isthmus.spark.leases.maps import LedgerMaps
from testing.records import topics

pytestmark = pytest.mark.integration

RECORDS = 30


def lane_of(name: str) -> Lane:
    return Lane(
        source_topic=SourceTopic(name),
        source_topic_id=uuid.uuid4(),
        target_topic=TargetTopic(name),
        target_topic_id=uuid.uuid4(),
        partition=0,
        is_mapped=True,
    )


async def segments(client: Client, link: str) -> list[MapDocument]:
    """The segments of a link in the ledger."""
    found = await read_documents(client)
    return MapDocument.find_all(found.values(), link)


async def kept(client: Client, link: str) -> dict[int, MapDocument]:
    """The same by the first record they tell of."""
    return {each.ordinal_begin: each for each in await segments(client, link)}


def test_what_the_target_has_deleted_is_mapped_no_more(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A lease lets go of segments that tell of deleted records only, and says so for those who look for lost ones. What
    was written of a segment before is not read, so that a newer release may have done so.
    """
    name = topic("trimmed")
    topics.create(west, name)
    topics.produce(west, name, topics.some(RECORDS, random.Random(7)))
    topics.delete_records(west, name, 20)
    lane = lane_of(name)

    def segment(begin: int) -> MapDocument:
        return MapDocument(
            link=name,
            topic=lane.target_topic,
            partition=0,
            segment=f"1.0.1.{begin}",
            ordinal_begin=begin,
            ranges=(MappedRange(2 * begin, begin, 10),),
            cursor=Cursor(2 * begin + 10, begin + 10, begin + 10),
            source_topic_id=lane.source_topic_id,
            target_topic_id=lane.target_topic_id,
        )

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)
            unreadable = topics.Given(segment(0).key.encode(), b'{"schema_version": 99}', [], topics.SEPTEMBER)
            topics.produce(west, LEDGER_TOPIC, [unreadable])
            writer = LedgerWriter(client)
            await on_topic(client, lambda: writer.append(list(map(segment, (0, 10, 20)))), replication_factor=1)
            writer.close()
            spec = SimpleNamespace(context=SimpleNamespace(link=name), controller=2, slot=0, generation=1)
            store = LedgerMaps(client, cast(Any, spec), segment_ranges=2)
            known = (await store.load([lane]))[lane.key]
            assert not isinstance(known, Problem)
            assert (known.cursor.ordinal, known.ordinal_begin) == (RECORDS, 20)
            transit = Transit.known(*known)
            transit.resume(Cursor(55, 31, 31), [MappedRange(54, 30, 1)])
            await store.save({lane.key: transit}, term_s=30.0)
            store.close()
            found = await kept(client, name)
            # The segment from 10 on tells of nothing that is left either.
            assert {begin: each.trimmed_ordinal for begin, each in found.items()} == {20: 20}
            assert found[20].ranges == (MappedRange(40, 20, 10), MappedRange(54, 30, 1))

    asyncio.run(scenario())


def test_a_lane_that_comes_back_within_a_lease_keeps_its_map(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A lease that lost a lane and got it again, as when a topic is paused and resumed, writes into another segment:
    what the former one said stays, however long it was.
    """
    name = topic("resumed")
    topics.create(west, name)
    lane = lane_of(name)
    ranges = [MappedRange(3 * n, 2 * n, 1) for n in range(3)]

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)
            spec = SimpleNamespace(context=SimpleNamespace(link=name), controller=2, slot=0, generation=1)
            store = LedgerMaps(client, cast(Any, spec), segment_ranges=4)
            assert await store.load([lane]) == {}
            await store.begin({lane: Cursor(0, 0, 0)})
            transit = Transit(Cursor(0, 0, 0))
            transit.resume(Cursor(7, 3, 5), ranges)
            await store.save({lane.key: transit}, term_s=30.0)

            known = (await store.load([lane]))[lane.key]
            assert not isinstance(known, Problem)
            transit = Transit.known(*known)
            transit.resume(Cursor(10, 4, 7), [MappedRange(9, 6, 1)])
            await store.save({lane.key: transit}, term_s=30.0)
            store.close()
            whole = lane_map(list((await kept(client, name)).values()))
            assert (whole.offsets.ranges, whole.cursor) == ((*ranges, MappedRange(9, 6, 1)), Cursor(10, 4, 7))

    asyncio.run(scenario())


def test_a_lease_that_wakes_up_late_cuts_off_nothing(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """It stood still with a word of its own on the way, by which the lane had gone back, while another lease took the
    lane over and went on: whoever comes next has all that the other one wrote.
    """
    name = topic("late")
    topics.create(west, name)
    lane = lane_of(name)

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)

            def lease(generation: int) -> LedgerMaps:
                spec = SimpleNamespace(context=SimpleNamespace(link=name), controller=2, slot=0, generation=generation)
                return LedgerMaps(client, cast(Any, spec))

            async def taken(store: LedgerMaps) -> Transit:
                known = (await store.load([lane]))[lane.key]
                assert not isinstance(known, Problem)
                return Transit.known(*known)

            first, frozen, other, last = map(lease, range(1, 5))
            assert await first.load([lane]) == {}
            await first.begin({lane: Cursor(0, 0, 0)})
            late = await taken(frozen)
            late.resume(Cursor(9, 4, 30, left_out=2), [MappedRange(0, 26, 4)])
            late.believe(3)
            # Its end is written down before anybody else has the lane.
            writer = LedgerWriter(client)
            ended = TaskDocument(link=name, slot=0, controller=2, generation=2, ended_through=2, is_clean=False)
            await writer.append([ended])
            writer.close()
            transit = await taken(other)
            transit.resume(Cursor(9, 9, 19), [MappedRange(0, 10, 9)])
            await other.save({lane.key: transit}, term_s=30.0)
            await frozen.save({lane.key: late}, term_s=30.0)

            assert (await taken(last)).cursor == transit.cursor
            whole = lane_map(await segments(client, name))
            assert (whole.offsets.ranges, whole.cursor) == (tuple(transit.ranges), transit.cursor)
            for store in (first, frozen, other, last):
                store.close()

    asyncio.run(scenario())


def test_what_a_lease_says_at_its_end_holds_until_another_one_begins(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """That nothing came behind what it had written down; whoever takes the lane over says first that this is over. What
    was written before leases said it says nothing of what came behind.
    """
    name = topic("final")
    topics.create(west, name)
    lane = lane_of(name)
    copied = Cursor(10, 10, 10)

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)
            leases: list[LedgerMaps] = []

            async def known() -> Known:
                spec = SimpleNamespace(context=SimpleNamespace(link=name), controller=2, slot=0, generation=len(leases))
                leases.append(LedgerMaps(client, cast(Any, spec)))
                found = (await leases[-1].load([lane]))[lane.key]
                assert isinstance(found, Known)
                return found

            old = MapDocument(
                link=name,
                topic=lane.target_topic,
                partition=0,
                segment="1.0.0.0",
                ordinal_begin=0,
                ranges=(MappedRange(0, 0, 10),),
                cursor=copied,
            )
            writer = LedgerWriter(client)
            await writer.append([old])
            writer.close()
            for is_told_whole in (True, False):
                found = await known()
                assert (found.cursor, found.is_final) == (copied, not is_told_whole)
                await leases[-1].begin({lane: found.cursor})
                assert not (await known()).is_final, "it may have copied more"
                transit = Transit.known(*found)
                if is_told_whole:
                    await leases[-2].save({lane.key: transit}, term_s=30.0)
                await leases[-1].save({lane.key: transit}, final=[lane.key], term_s=30.0)
            assert (await known()).is_final
            whole = lane_map(await segments(client, name))
            assert (whole.offsets.ranges, whole.cursor) == ((MappedRange(0, 0, 10),), copied)
            for store in leases:
                store.close()

    asyncio.run(scenario())


def test_a_topic_that_was_made_anew_within_a_lease_gets_a_map_of_its_own(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Its place is written down although the former topic had come to the same one, and says nothing of that topic."""
    name = topic("anew")
    topics.create(west, name)
    former = lane_of(name)
    lane = replace(former, target_topic_id=uuid.uuid4())
    copied = Cursor(10, 10, 10)

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)
            spec = SimpleNamespace(context=SimpleNamespace(link=name), controller=2, slot=0, generation=1)
            store = LedgerMaps(client, cast(Any, spec))
            for each in (former, lane):
                assert await store.load([each]) == {}
                await store.begin({each: Cursor(0, 0, 0)})
                transit = Transit(Cursor(0, 0, 0))
                transit.resume(copied, [MappedRange(0, 0, 10)])
                await store.save({each.key: transit}, term_s=30.0)
            store.close()
            (left,) = (await kept(client, name)).values()
            assert (left.target_topic_id, left.cursor) == (lane.target_topic_id, copied)

    asyncio.run(scenario())
