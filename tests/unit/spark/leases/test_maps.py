"""The maps of a lease's mapped lanes, by what its ledger has."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.engine.mapped.transit import Transit
from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import DepartureDocument, MapDocument, TransformDocument, encode_document
from isthmus.ledger.link import newest
from isthmus.ledger.records import Deletion, Entry, LedgerChange
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from isthmus.spark.leases.maps import LedgerMaps, _Look
from testing.values.looks import NOWHERE

LANES = 50


def lane_of(partition: int) -> Lane:
    return Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=partition,
        is_mapped=True,
    )


def segment_of(lane: Lane) -> MapDocument:
    return MapDocument(
        link="l",
        topic=lane.target_topic,
        partition=lane.partition,
        segment="1.0.1.0",
        ordinal_begin=0,
        ranges=tuple(MappedRange(3 * n, 2 * n, 1) for n in range(5)),
        cursor=Cursor(13, 5, 9),
    )


def store_of(client: Client) -> Any:
    """The maps of a lease."""
    spec = SimpleNamespace(context=SimpleNamespace(link="l"), controller=2, slot=0, generation=1)
    return LedgerMaps(client, cast(Any, spec))


def test_others_have_their_turn_while_maps_are_put_together() -> None:
    """All leases of a task share one event loop: it turns at least once for each lane."""
    lanes = [lane_of(partition) for partition in range(LANES)]
    segments = [segment_of(lane) for lane in lanes]
    entries = [Entry(offset, each.key, encode_document(each)) for offset, each in enumerate(segments)]
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            store = store_of(client)
            store._look = lambda: asyncio.sleep(0, _Look(entries, LANES))
            others = asyncio.create_task(turning())
            known = await store.load(lanes)
            others.cancel()
            store.close()
            assert {key.partition for key in known} == set(range(LANES))

    asyncio.run(scenario())

    assert turns >= LANES


def test_a_look_that_fails_when_nobody_waits_any_more_is_no_overlooked_failure() -> None:
    """Nothing is printed of it: the lease has ended, and its client with it."""
    overlooked: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: overlooked.append(context))
        closed = asyncio.Event()

        async def look() -> _Look:
            await closed.wait()
            raise Unreachable("the connection was closed", cluster="west")

        async with Client(NOWHERE) as client:
            store = store_of(client)
            store._look = look
            waiting = asyncio.create_task(store.load([lane_of(0)]))
            while store._looking is None:
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            looking, store._looking = store._looking, None
            closed.set()
            await asyncio.wait([looking])
            store.close()

    asyncio.run(scenario())
    gc.collect()
    assert not overlooked


@pytest.mark.parametrize(
    ("taken_at", "said", "is_final"), [(-1, False, False), (7, False, False), (7, True, True)], ids=str
)
def test_nothing_was_on_its_way_only_if_the_last_owner_says_so(*, taken_at: int, said: bool, is_final: bool) -> None:
    """An earlier release says nothing of it, and may have been killed before it wrote down what it had sent."""
    lane = lane_of(0)
    segments = [replace(segment_of(lane), taken_at=taken_at, is_final=said)]
    found = store_of(Client(NOWHERE))._resume_lane(lane, segments, 0)
    assert found.is_final is is_final


class Ledger:
    """The ledger's topic; `lose` empties it, as when somebody has deleted it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def append(self, changes: Collection[LedgerChange], *, term_s: float = 30.0) -> int:
        for change in changes:
            value = None if isinstance(change, Deletion) else encode_document(change)
            self.entries.append(Entry(len(self.entries), change.key, value))
        return len(self.entries)

    def lose(self) -> None:
        self.entries.clear()

    def close(self) -> None:
        """Nothing is open."""


def test_a_ledger_that_was_created_again_gets_all_that_a_lease_knows_of_changed_records() -> None:
    """Where those come from that are on their way, and which transform made which: no later departure has to come
    first.
    """
    lane = replace(lane_of(0), transform="two")
    ledger = Ledger()
    before = Cursor(10, 5, 5, transform="one")

    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            store = store_of(client)
            store._writer = store._ordered = ledger
            store._look = lambda: asyncio.sleep(0, _Look(list(ledger.entries), len(ledger.entries)))
            await store.load([lane])
            await store.begin({lane: before})
            after = Transit(replace(before, transform="two", rewound=1))
            await store.save({lane.key: after}, term_s=1.0)
            after.take_changed(12, 0)
            await store.depart({lane.key: after.depart()})
            known = newest(ledger.entries, "l")

            ledger.lose()
            store.note_loss()
            await store.save({lane.key: after}, term_s=1.0)

            assert newest(ledger.entries, "l") == known
            assert len(DepartureDocument.find_all(known.values())) == 1
            assert [each.transform for each in TransformDocument.find_all(known.values())] == ["one", "two"]
            count = len(ledger.entries)
            await store.save({lane.key: after}, term_s=1.0)
            assert len(ledger.entries) == count

    asyncio.run(scenario())
