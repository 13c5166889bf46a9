"""A lane whose records are changed, by leases that follow one another, as a model: whatever happens in whatever order,
the target has what became of each record once and in order, and the map is exact.

The lane, its stage, its transit, the search for its place and its documents are the product's. The logs, the ledger's
topic and the appender are the model's.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.room import Room
from isthmus.engine.mapped.changing import Changing
from isthmus.engine.mapped.departing import Departing
from isthmus.engine.mapped.places import Places
from isthmus.engine.mapped.transformer import Changed, Failure, Portion
from isthmus.engine.run import LaneRun, Look
from isthmus.engine.source import Bounds
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.writer import LogLook, ProducerState, Writer
from isthmus.errors import Unreachable
from isthmus.kafka.batches.batch import CONTROL, Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import Offset
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.ledger.documents.kinds import MapDocument, TransformDocument, encode_document
from isthmus.ledger.generations import in_force
from isthmus.ledger.link import newest
from isthmus.ledger.maps import lane_map
from isthmus.ledger.records import Deletion, Entry, LedgerChange
from isthmus.model.lane import Lane
from isthmus.model.link import Limits
from isthmus.model.links.transform import OnError
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.leases.maps import LedgerMaps, _Look
from testing.values.looks import NOWHERE

OURS = 7
LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=1),
    target_topic=TargetTopic("copies"),
    target_topic_id=uuid.UUID(int=2),
    partition=0,
    is_mapped=True,
    transform="one",
    on_error=OnError.SKIP,
)
NAMES = ("one", "two", "three")
SEEDS = 20
STEPS = 250


class World:
    """What outlives a lease: both logs, and the ledger's topic."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.source: list[Piece] = []
        self.target: list[Batch] = []
        self.entries: list[Entry] = []
        self.late: list[tuple[LedgerChange, ...]] = []
        self.nonce = 0

    @property
    def source_end(self) -> int:
        return self.source[-1].batch.offset_end if self.source else 0

    @property
    def target_end(self) -> int:
        return self.target[-1].offset_end if self.target else 0

    def produce(self) -> None:
        """More comes at the source: records, with holes among them, or aborted ones, or a control record."""
        chance, begin = self.chance, self.source_end
        count, kind = chance.randint(1, 9), chance.random()
        found = encode([Record(begin + n, 1000 + n, None, b"", []) for n in range(count)], chance.choice([0, 3]))
        found = found._replace(leader_epoch=begin // 100)
        if kind < 0.1:
            found = found._replace(attributes=found.attributes | CONTROL)
        elif kind < 0.3:
            found = found._replace(offset_end=found.offset_end + chance.randint(1, 3))
        self.source.append(Piece(found, True, is_aborted=0.3 < kind < 0.4))

    def append(self, batch: Batch, producer_id: int) -> int:
        """Append to the target's log; sequences are ordinals."""
        base = self.target_end
        placed = batch._replace(
            base_offset=base,
            offset_end=base + batch.record_count,
            producer_id=producer_id,
            base_sequence=batch.base_offset if producer_id == OURS else 0,
        )
        self.target.append(placed)
        return base

    def write(self, changes: Iterable[LedgerChange]) -> None:
        for change in changes:
            value = None if isinstance(change, Deletion) else encode_document(change)
            self.entries.append(Entry(len(self.entries), change.key, value))


class TargetLog:
    def __init__(self, world: World) -> None:
        self._world = world

    async def read(self, span: OffsetRange) -> AsyncGenerator[list[StoredBatch], None]:
        for each in self._world.target:
            if each.offset_end > span.offset_begin and each.base_offset < span.offset_end:
                yield [StoredBatch(each, is_aborted=False)]


class LedgerLog:
    """Writes to the ledger may fail, written or not. Those that were `lost` last may come once another lease has
    the lane: as order is kept, none comes behind later ones of its own.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.lost: list[tuple[LedgerChange, ...]] = []

    async def append(self, changes: Collection[LedgerChange], *, term_s: float = 30.0) -> int:
        given, chance = tuple(changes), self._world.chance
        for _ in range(chance.randint(0, 4)):
            await asyncio.sleep(0)
        fate = chance.random()
        if fate > 0.1:
            self._world.write(given)
            self.lost.clear()
        else:
            self.lost.append(given)
        if fate < 0.2:
            raise Unreachable("no answer came", cluster="nowhere")
        return 0

    def close(self) -> None:
        """Nothing is open."""


class Chooser:
    """A transform that decides by chance what becomes of a record, so that it never decides twice the same. It keeps
    every third record.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    async def change(self, portion: Portion) -> Sequence[Changed]:
        for _ in range(self._world.chance.randint(0, 5)):
            await asyncio.sleep(0)
        return [self._decide(record) for record in portion.records]

    def _decide(self, record: Record) -> Changed:
        fate = 1.0 if record.offset % 3 == 0 else self._world.chance.random()
        self._world.nonce += 1
        if fate < 0.4:
            return None
        if fate < 0.5:
            return Failure(record, "unlucky")
        return record._replace(value=b"%d %d %s" % (record.offset, self._world.nonce, self._name.encode()))


class Life:
    """One lease with the lane, as an engine runs it."""

    def __init__(self, client: Client, world: World, generation: int, lane: Lane) -> None:
        self.world, self.room = world, Room(Limits())
        self.run = LaneRun(lane, Writer(abandoned=True, is_mapped=True))
        spec = SimpleNamespace(context=SimpleNamespace(link="l"), controller=2, slot=0, generation=generation)
        self.maps = LedgerMaps(client, cast(Any, spec), segment_ranges=8)
        fakes: Any = self.maps
        fakes._look = self._look_at_ledger
        fakes._log_starts = lambda _: asyncio.sleep(0, {})
        fakes._writer = fakes._ordered = self.ledger = LedgerLog(world)
        producer = ProducerIdentity(producer_id=OURS, marker_producer_id=9)
        routes: Any = SimpleNamespace(client=client, leader=lambda *_: None, ask=self._ask)
        self.places = Places(routes, routes, producer, self.maps, settle_s=0.0)
        fakes = self.places
        fakes._target_log = TargetLog(world)
        self.tasks: set[asyncio.Task[None]] = set()
        self.changing = Changing(self, {name: Chooser(world, name) for name in NAMES}, None, self._spawn)
        self.departing = Departing(self, self.maps)
        self._spawn(self.departing.run())
        self.faults: Any = SimpleNamespace(note_unreadable=self._fail, block_unchanged=self._fail)

    def _fail(self, *what: object) -> None:
        raise AssertionError(what)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)

    async def _ask(self, keys: Iterable[Any], _: object) -> dict[Any, Offset]:
        return {key: Offset(0, 0 if key[0] == "copies" else self.world.source_end) for key in keys}

    async def _look_at_ledger(self) -> _Look:
        self.maps._looking = None
        return _Look(list(self.world.entries), len(self.world.entries))

    def note_changed(self, run: LaneRun) -> None:
        if run.intake.stage is not None and run.intake.stage.outgoing:
            self.departing.add(run)

    def send_departed(self, run: LaneRun) -> None:
        """The next step may send."""

    async def place(self) -> None:
        """Find the lane's place, as the engine does."""
        run, world = self.run, self.world
        ours = [each for each in world.target if each.producer_id == OURS]
        last = ours[-1].base_sequence + ours[-1].record_count - 1 if ours else -1
        state = ProducerState(0, last) if world.chance.random() < 0.5 and ours else None
        seen = LogLook(world.target_end, world.target_end, state, leader_epoch=3)
        delay: float | None = 0.0
        for _ in range(200):
            delay = (await self.places.find([Look(run, seen, Bounds(0, world.source_end))]))[run]
            if delay is None:
                break
        assert delay is None, run.report()
        assert not run.is_over, run.problem
        run.place()
        assert run.transit is not None
        run.transit.resume(cursor := run.transit.cursor)
        self.room.give(run.intake.restart(cursor.source_offset, cursor.source_epoch))

    def read(self) -> None:
        run = self.run
        at = run.intake.read_offset
        found = [piece for piece in self.world.source if piece.batch.offset_end > at][: self.world.chance.randint(1, 3)]
        self.room.take(run.offer(iter(found)))
        self.changing.wake(run)

    def send(self) -> bool:
        """Send the first pending piece. Return whether its answer came."""
        run, world = self.run, self.world
        piece = run.intake.pending[0]
        count = piece.batch.record_count
        assert piece.batch.base_offset == run.writer.position
        run.writer.sent(count)
        if world.chance.random() < 0.1:
            # The answer is lost, and the request as well or not.
            if world.chance.random() < 0.5:
                world.append(piece.batch, OURS)
            run.writer.abandon()
            run.doubt()
            return False
        base = world.append(piece.batch, OURS)
        run.writer.answered(0, base)
        assert run.transit is not None
        run.transit.appended(count, base)
        self.room.give(run.intake.take(1))
        return True

    async def save(self) -> None:
        run = self.run
        if run.transit is None or run.transit.is_outdated:
            return
        if run.phase.is_placed:
            run.transit.passed(run.intake.read_epoch)
        try:
            await self.maps.save({run.lane.key: run.transit}, term_s=1.0)
        except Unreachable:
            return

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        results = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert [each for each in results if isinstance(each, Exception)] == []
        self.world.late += self.ledger.lost

    @property
    def is_done(self) -> bool:
        intake = self.run.intake
        return intake.read_offset >= self.world.source_end and not intake.has_waiting


async def step(life: Life) -> None:
    """Anything that may happen next."""
    chance, run = life.world.chance, life.run
    if run.phase is Phase.SEEKING:
        await life.place()
    match chance.randrange(7):
        case 0:
            life.read()
        case 1 | 2 if run.intake.pending:
            life.send()
        case 3:
            await life.save()
        case 4:
            life.world.append(encode([Record(0, 1, None, b"others", [])], 0), 8)
        case 5 if life.world.late and chance.random() < 0.5:
            life.world.write(life.world.late.pop(chance.randrange(len(life.world.late))))
        case 5:
            life.world.produce()
        case 6 if chance.random() < 0.05 and run.transit is not None:
            # The lease lapsed for a moment.
            run.transit.outdate()
            run.doubt()
        case _:
            await asyncio.sleep(0)


async def finish(life: Life) -> None:
    """Copy what there is, and write it down."""
    while True:
        if life.run.phase is Phase.SEEKING:
            await life.place()
        elif life.run.intake.pending:
            life.send()
        elif life.is_done:
            break
        else:
            life.read()
            await asyncio.sleep(0)
    assert life.run.transit is not None
    reached = life.run.transit.cursor
    while life.maps._stored.get(LANE.key) != reached.ordinal or life.maps._unsaved:
        await life.save()
    assert life.run.intake.size_bytes == life.room._bytes == 0


def judge(world: World) -> None:
    """Each record is there once, in order, where the map says, and the kept ones are all there. The ledger tells
    by which transform each was made.
    """
    documents = newest(world.entries, "l").values()
    whole = lane_map(MapDocument.find_all(documents))
    offsets = whole.offsets
    there = [
        (int((record.value or b"").split()[0]), batch.base_offset + n)
        for batch in world.target
        if batch.producer_id == OURS
        for n, record in enumerate(records_of(batch))
    ]
    mapped = [(one.source_begin + n, one.target_begin + n) for one in offsets.ranges for n in range(one.length)]
    assert mapped == there
    made = [
        (record.value or b"").split()[2].decode()
        for batch in world.target
        if batch.producer_id == OURS
        for record in records_of(batch)
    ]
    generations = in_force(TransformDocument.find_all(documents), whole.cursor)
    begins = [each.source_offset for each in generations]
    assert begins == sorted(set(begins))
    assert made == [generations[bisect_right(begins, source) - 1].transform for source, _ in there]
    sources = [source for source, _ in there]
    assert sources == sorted(set(sources))
    wanted = {
        offset
        for piece in world.source
        if not (piece.is_aborted or piece.batch.is_control)
        for offset in range(piece.batch.base_offset, piece.batch.base_offset + piece.batch.record_count)
    }
    assert set(sources) <= wanted
    assert {offset for offset in wanted if offset % 3 == 0} <= set(sources)


@pytest.mark.parametrize("number", range(SEEDS))
def test_each_record_comes_once_whatever_a_transform_decides(number: int) -> None:
    """Leases are cut off between any two steps, lapse, lose answers, and change their transform."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    world = World(random.Random(seed))

    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            for generation in range(world.chance.randint(2, 6)):
                lane = replace(LANE, transform=world.chance.choice(NAMES))
                life = Life(client, world, generation, lane)
                for _ in range(world.chance.randint(0, STEPS)):
                    await step(life)
                await life.end()
            life = Life(client, world, 99, LANE)
            await finish(life)
            await life.end()

    asyncio.run(scenario())

    judge(world)
