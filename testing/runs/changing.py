"""Lanes whose records are changed, in engines with maps in a real ledger, that end between any two steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any, Final, cast

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, DeadLetters, Portion
from isthmus.engine.mapped.transit import Transit
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MapDocument, TransformDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.maps import LaneMap, lane_maps
from isthmus.ledger.topic import ensure_topic
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Departure
from isthmus.spark.leases.maps import LedgerMaps
from testing.patience import TERM_S
from testing.records import oracle
from testing.records.oracle import Seen
from testing.runs.mirror import Mirror, Running

_SAVE_S: Final = 0.2
_generations = count(1)


class Steps:
    """Stops the engine at one of its steps: whoever takes it waits for ever. `end` is its number, -1 for none."""

    def __init__(self, end: int = -1) -> None:
        self.reached = asyncio.Event()
        self.names: list[str] = []
        self._end = end

    async def take(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self._end or self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()


class SteppingMaps(LedgerMaps):
    """The maps of a lease, whose writes are steps."""

    def __init__(self, target: Client, spec: Any, steps: Steps) -> None:
        super().__init__(target, spec)
        self._steps = steps

    async def depart(self, departures: Mapping[LaneKey, Departure]) -> None:
        await self._steps.take("before records depart")
        await super().depart(departures)
        await self._steps.take("before records are sent")

    async def save(
        self, transits: Mapping[LaneKey, Transit], *, final: Collection[LaneKey] = (), term_s: float
    ) -> None:
        await self._steps.take("before cursors are stored")
        await super().save(transits, final=final, term_s=term_s)
        await self._steps.take("after cursors were stored")


@dataclass(slots=True)
class Changer:
    """A transform of single records, by a function that a test gives."""

    function: Callable[[Record], Changed]
    steps: Steps | None = None

    async def change(self, portion: Portion) -> Sequence[Changed]:
        if self.steps is not None:
            await self.steps.take("before records are changed")
        changed = [self.function(record) for record in portion.records]
        if self.steps is not None:
            await self.steps.take("after records were changed")
        return changed


@asynccontextmanager
async def changing(
    mirror: Mirror,
    link: str,
    *topics: str,
    transformers: Mapping[str, Any],
    letters: DeadLetters | None = None,
    steps: Steps | None = None,
    saves: bool = True,
    **lane: Any,
) -> AsyncIterator[Running]:
    """An engine whose lanes change records. It writes their maps as a lease does, and at its end, unless it is not to:
    then only what lanes themselves need is written.
    """
    async with Client(mirror.target_login) as ledger:
        await ensure_topic(ledger, replication_factor=1)
        spec = SimpleNamespace(context=SimpleNamespace(link=link), controller=1, slot=0, generation=next(_generations))
        maps = SteppingMaps(ledger, cast(Any, spec), steps or Steps())
        options = {"maps": maps, "transformers": transformers, "letters": letters}
        async with mirror.running(*topics, engine=options, **({"transform": "one"} | lane), is_mapped=True) as running:
            saving = asyncio.create_task(_save(running, maps) if saves else asyncio.sleep(0))
            try:
                yield running
            finally:
                saving.cancel()
                await asyncio.wait([saving])
        if saves and (steps is None or not steps.reached.is_set()):
            transits = running.engine.lanes.transits()
            await LedgerMaps.save(maps, transits, final=running.engine.lanes.find_final(transits), term_s=TERM_S)
        maps.close()


async def _save(running: Running, maps: LedgerMaps) -> None:
    while True:
        await asyncio.sleep(_SAVE_S)
        with contextlib.suppress(ClusterError):
            await maps.save(running.engine.lanes.transits(), term_s=TERM_S)


async def maps_of(mirror: Mirror, link: str) -> dict[LaneKey, LaneMap]:
    """The maps of a link's lanes in the ledger."""
    async with Client(mirror.target_login) as ledger:
        return lane_maps(link, await read_documents(ledger, link, kinds=[MapDocument]))


async def transforms_of(mirror: Mirror, link: str) -> list[TransformDocument]:
    """Where the lanes of a link begin to be changed by which transform, in order."""
    async with Client(mirror.target_login) as ledger:
        documents = await read_documents(ledger, link, kinds=[TransformDocument])
    return sorted(TransformDocument.find_all(documents.values()), key=lambda each: each.ordinal)


def assert_changed(
    mirror: Mirror, link: str, topic: str, is_result: Callable[[Seen, Seen | None], bool], *, partitions: int = 1
) -> list[Seen]:
    """What became of each committed record of the source is a result of it, is there once, in order, and where the map
    says. Return what else the target holds.
    """
    maps = asyncio.run(maps_of(mirror, link))
    servers = mirror.source.admin_bootstrap_servers, mirror.target.admin_bootstrap_servers
    sources = oracle.records(servers[0], topic, "read_committed", partitions=partitions)
    targets = oracle.records(servers[1], topic, "read_uncommitted", partitions=partitions)
    rest: list[Seen] = []
    for partition, (source, target) in enumerate(zip(sources, targets, strict=True)):
        there = {seen.offset: seen for seen in target}
        ranges = maps[LaneKey(TargetTopic(topic), partition)].offsets.ranges
        places = {one.source_begin + n: one.target_begin + n for one in ranges for n in range(one.length)}
        assert list(places.values()) == sorted(places.values())
        for seen in source:
            place = places.pop(seen.offset, None)
            found = None if place is None else there.pop(place)
            assert is_result(seen, found), (partition, seen, found)
        assert not places
        rest += there.values()
    return rest
