"""Where mapped lanes go on: what each look at both logs amounts to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Leader, Routes
from isthmus.engine.mapped import places, scanning
from isthmus.engine.mapped.places import Known, Places
from isthmus.engine.mapped.transit import NONE_DEPARTED, Transit
from isthmus.engine.run import LaneRun, Look
from isthmus.engine.source import Bounds
from isthmus.engine.state.writer import LogLook, ProducerState, Writer
from isthmus.errors import Unreachable
from isthmus.kafka.batches.batch import CONTROL, Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import Offset
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.model.copyflags import FlagsHeader, Selection
from isthmus.model.lane import NO_END, Lane, LaneKey, LaneState
from isthmus.model.offsets import LATEST, Cursor, Departure, Skips, Stretch
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange
from testing.patience import TERM_S
from testing.values.looks import NOWHERE
from tests.unit.engine.mapped.lanes import LANE

OURS, THEIRS = 7, 8
_ZSTD = 4
WHOLE = Bounds(0, 50)


def batch(
    offset: int, count: int, *, producer_id: int = -1, sequence: int = -1, first: int = 0, epoch: int = -1
) -> Batch:
    found = encode([Record(offset + n, 1000, None, b"%d" % (first + n), []) for n in range(count)], 0)
    return found._replace(producer_id=producer_id, base_sequence=sequence, leader_epoch=epoch)


class Log:
    """A log of which stretches can be read, a batch with each answer. It knows from where it was read."""

    def __init__(self, *batches: Batch) -> None:
        self.batches = list(batches)
        self.read_from: list[int] = []

    async def read(self, span: OffsetRange) -> AsyncGenerator[list[StoredBatch], None]:
        self.read_from.append(span.offset_begin)
        for each in self.batches:
            if each.offset_end > span.offset_begin and each.base_offset < span.offset_end:
                yield [StoredBatch(each, is_aborted=False)]


class Store:
    """A ledger that knows one cursor, none, or nothing that can be used."""

    def __init__(self, cursor: Cursor | None) -> None:
        self.cursor = cursor
        self.problem: Problem | None = None
        self.is_away = False
        self.ranges: tuple[MappedRange, ...] = ()
        self.is_final = False
        self.departed = NONE_DEPARTED

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        if self.problem is not None:
            return {lane.key: self.problem for lane in lanes}
        if self.cursor is None:
            return {}
        begin = self.cursor.ordinal - sum(one.length for one in self.ranges)
        return {lane.key: Known(self.cursor, begin, self.ranges, self.is_final, self.departed) for lane in lanes}

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        (self.cursor,) = cursors.values()
        self.is_final = False

    async def save(self, transits: Mapping[LaneKey, Transit], *, term_s: float) -> None:
        if self.is_away:
            raise Unreachable("the target does not answer", cluster="nowhere")
        (self.cursor,) = (transit.cursor for transit in transits.values())

    async def depart(self, departures: Mapping[LaneKey, Departure]) -> None:
        """Nothing is changed here."""


class Scene:
    """One lane whose place is looked for."""

    def __init__(
        self,
        client: Client,
        cursor: Cursor | None,
        *,
        abandoned: bool = False,
        lane: Lane = LANE,
        search_s: float = 1000.0,
    ) -> None:
        routes = Routes[Any](client)
        routes._leaders[LANE.source_topic, 0] = Leader(1, 4)
        producer = ProducerIdentity(producer_id=OURS, marker_producer_id=9)
        self.store = Store(cursor)
        self.places = Places(routes, routes, producer, self.store, settle_s=0.0, search_s=search_s)
        self.source, self.target = Log(batch(0, 50)), Log()
        self.source_start: int | None = 0
        self.target_start: int | None = 0
        fakes: Any = self.places
        fakes._source_log, fakes._target_log = self.source, self.target
        fakes._source = SimpleNamespace(client=client, leader=routes.leader, ask=self._ask_source)
        fakes._target = SimpleNamespace(client=client, leader=routes.leader, ask=self._ask_target)
        self.run = LaneRun(lane, Writer(abandoned=abandoned, is_mapped=True))
        # Its source has the leader with which it was compared.
        self.run.belief.source_epoch = 4

    async def look(
        self,
        log_end: int,
        *,
        high: int = -1,
        last_sequence: int | None = None,
        source: Bounds = WHOLE,
        epoch: int = -1,
    ) -> float | None:
        state = None if last_sequence is None else ProducerState(0, last_sequence)
        seen = LogLook(log_end, log_end if high < 0 else high, state, leader_epoch=epoch)
        return (await self.places.find([Look(self.run, seen, source)]))[self.run]

    async def _ask_source(self, keys: Iterable[tuple[str, int]], _: object) -> dict[tuple[str, int], Offset]:
        return {} if self.source_start is None else {key: Offset(0, self.source_start) for key in keys}

    async def _ask_target(self, keys: Iterable[tuple[str, int]], _: object) -> dict[tuple[str, int], Offset]:
        return {} if self.target_start is None else {key: Offset(0, self.target_start) for key in keys}

    @property
    def place(self) -> tuple[int, int]:
        """The ordinal and the source offset at which the lane goes on."""
        assert self.run.transit is not None
        return self.run.writer.position, self.run.transit.cursor.source_offset


def with_scene(work: Callable[[Scene], Any], cursor: Cursor | None, **settings: Any) -> None:
    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            await work(Scene(client, cursor, **settings))

    asyncio.run(scenario())


def test_a_lane_begins_behind_what_is_there_and_says_so_first() -> None:
    """Before anything is appended the ledger knows where the source is read from, and from where on ours may lie."""

    async def work(scene: Scene) -> None:
        scene.run.belief.source_epoch = -1
        assert await scene.look(30, source=Bounds(10, 50)) is None
        assert scene.store.cursor == Cursor(10, 0, 30)
        assert scene.place == (0, 10)
        assert (scene.run.belief.source_epoch, scene.run.writer.abandoned) == (4, False)

    with_scene(work, None)

    async def at_the_end(scene: Scene) -> None:
        assert await scene.look(30) is None
        assert scene.place == (0, 50)

    lane = Lane(**{name: getattr(LANE, name) for name in LANE.__slots__} | {"start": LATEST})
    with_scene(at_the_end, None, lane=lane)


def test_a_link_that_comes_back_to_a_topic_counts_on() -> None:
    """What its producer wrote in an earlier life is not taken for what is copied now, and goes on counting."""

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(0, 30, producer_id=OURS, sequence=0)]
        assert await scene.look(30, last_sequence=29) is None
        assert scene.store.cursor == Cursor(0, 30, 30, first_ordinal=30)
        assert scene.place == (30, 0)
        assert (scene.run.writer.sequence, scene.run.state) == (30, LaneState.STARTING)

    with_scene(work, None)

    async def again(scene: Scene) -> None:
        # Nothing was appended yet, and nobody remembers the producer by now.
        scene.target.batches = [batch(0, 30, producer_id=OURS, sequence=0)]
        assert await scene.look(30) is None
        assert scene.place == (30, 0)

    with_scene(again, Cursor(0, 30, 30, first_ordinal=30))


def test_what_another_leaf_got_is_left_out() -> None:
    """A lane that is new at a leaf begins where it is told; one that comes back goes past what another leaf got, which
    the ledger knows before anything is appended behind it.
    """
    lane = replace(LANE, begin_offset=20)

    async def new(scene: Scene) -> None:
        assert await scene.look(30) is None
        assert scene.store.cursor == Cursor(20, 0, 30)
        assert scene.place == (0, 20)

    with_scene(new, None, lane=lane)

    async def back(scene: Scene) -> None:
        # Two records had arrived that nobody had written down: they are counted from where the lane was.
        scene.target.batches = [batch(14, 1, producer_id=OURS, sequence=4), batch(15, 2, producer_id=OURS, sequence=5)]
        scene.store.is_away = True
        assert await scene.look(17) is not None
        assert scene.run.writer.position == -1, "nothing may be appended before it is written down"
        scene.store.is_away = False
        assert await scene.look(17) is None
        assert scene.place == (7, 20)
        assert scene.store.cursor == Cursor(20, 7, 17)
        assert scene.run.transit is not None
        assert [tuple(one) for one in scene.run.transit.ranges] == [(5, 15, 2)]

    with_scene(back, Cursor(5, 5, 15), lane=lane)

    async def gone(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4, source=Bounds(25, 50)) is None
        assert scene.run.state is LaneState.DATA_GAP

    with_scene(gone, Cursor(5, 5, 15), lane=lane)

    async def kept(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4, source=Bounds(15, 50)) is None
        assert scene.place == (5, 20), "what the source deleted before was never this leaf's"

    with_scene(kept, Cursor(5, 5, 15), lane=lane)


def test_a_lane_that_comes_back_to_a_leaf_knows_in_which_epoch_it_begins() -> None:
    """That of the last record that it copied itself is older, and ends before: its source would say that it lost what
    lies between. Where the epoch is not known none is told.
    """

    async def work(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4) is None
        assert scene.run.transit is not None
        cursor = scene.run.transit.cursor
        assert (cursor.source_offset, cursor.copied_to, cursor.source_epoch) == begun

    for left_out, epoch in ((0, -1), (3, 7)):
        begun = 20, 20 - left_out, epoch
        lane = replace(LANE, begin_offset=20, begin_left_out=left_out, begin_epoch=epoch)
        with_scene(work, Cursor(5, 5, 15, source_epoch=3), lane=lane)


def test_what_takes_the_place_of_what_was_left_out_before_a_beginning_is_copied() -> None:
    """Another leaf had read it, and copied nothing of it. So the lane goes back behind what that copied, and stays
    there; where what was copied is lost as well it stops.
    """
    lane = replace(LANE, begin_offset=20, begin_left_out=5, begin_epoch=3)

    async def back(scene: Scene) -> None:
        assert await scene.look(15) is None
        assert scene.place == (0, 20)
        assert scene.run.transit is not None
        scene.run.transit.doubt(16)
        assert await scene.look(15) is None
        assert scene.place == (0, 15)

    with_scene(back, None, lane=lane)

    async def lost(scene: Scene) -> None:
        assert await scene.look(15) is None
        assert scene.run.transit is not None
        scene.run.transit.doubt(14)
        while await scene.look(15) is not None:
            pass
        assert scene.run.state is LaneState.DIVERGED

    with_scene(lost, None, lane=lane)


def test_nothing_is_believed_before_it_is_replicated() -> None:
    """The end seen first has to be replicated, however far others have written since."""

    async def work(scene: Scene) -> None:
        assert await scene.look(30, high=25) is not None
        assert await scene.look(40, high=29) is not None
        assert scene.run.writer.position == -1
        assert await scene.look(50, high=30) is None
        assert scene.place == (0, 0)

    with_scene(work, None)


def test_what_a_broker_over_its_quota_holds_back_is_waited_for() -> None:
    """It comes in when the broker reads on, not sooner: no look before that settles anything."""

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1)]
        scene.run.writer.abandon(time.monotonic() + 1000.0)
        for _ in range(3):
            pause_s = await scene.look(15)
            assert pause_s is not None
            assert pause_s > 900.0
        scene.run.writer.held_until = time.monotonic()
        assert await scene.look(15) is not None, "nobody has looked since it read on"
        assert await scene.look(15) is None
        assert scene.place == (5, 5)

    with_scene(work, Cursor(5, 5, 15))


def test_an_abandoned_request_is_waited_for() -> None:
    """A lane settles until nothing of its own comes any more, whatever comes from others."""

    async def work(scene: Scene) -> None:
        last = batch(11, 4, producer_id=OURS, sequence=1)
        scene.target.batches = [last]
        assert await scene.look(15) is not None
        scene.target.batches += [batch(15, 3, producer_id=THEIRS, sequence=5)]
        scene.target.batches += [batch(18, 2, producer_id=OURS, sequence=5)]
        assert await scene.look(20) is not None, "something arrived late"
        scene.target.batches += [batch(20, 9, producer_id=THEIRS, sequence=8)]
        assert await scene.look(29) is None
        assert scene.place == (7, 7)
        assert scene.run.transit is not None
        assert [tuple(one) for one in scene.run.transit.ranges] == [(5, 18, 2)]

    with_scene(work, Cursor(5, 5, 15), abandoned=True)


def test_a_broker_that_knows_us_spares_the_search() -> None:
    """Where it says that the last record is the one that is known, the log needs not be read."""

    async def work(scene: Scene) -> None:
        scene.target.batches = []
        assert await scene.look(900, last_sequence=4) is None
        assert scene.place == (5, 5)

    with_scene(work, Cursor(5, 5, 15))


OTHERS = batch(40, 10, producer_id=THEIRS, sequence=0)


def test_what_the_target_deleted_before_it_was_written_down_is_not_copied_again() -> None:
    """Its log does not tell how much of ours lay there, and nobody remembers: the lane ends and says so, whether
    anything is left of the log or not, and in however many looks it was read.
    """
    for left, search_s in (([OTHERS], 1000.0), ([OTHERS], 0.0), ([], 1000.0)):

        async def work(scene: Scene, left: list[Batch] = left) -> None:
            scene.target.batches, scene.target_start = left, 40 if left else 50
            while await scene.look(50) is not None:
                pass
            assert (scene.run.state, scene.run.writer.position) == (LaneState.FAILED, -1)
            assert scene.run.problem is not None
            assert f"[15, {scene.target_start})" in scene.run.problem.message
            assert scene.run.transit is not None
            assert scene.run.transit.cursor.looked_to <= 15, "nobody has looked there"

        with_scene(work, Cursor(5, 5, 15), search_s=search_s)


@pytest.mark.parametrize("search_s", [1000.0, 0.0])
def test_what_a_cleaner_took_may_have_been_ours(search_s: float) -> None:
    """The cleaner takes what another writer has given a newer value: copied again it would count once more."""

    async def work(scene: Scene) -> None:
        scene.target.batches, scene.target_start = [OTHERS], 15
        while await scene.look(50) is not None:
            pass
        assert (scene.run.state, scene.run.writer.position) == (LaneState.FAILED, -1)
        assert scene.run.problem is not None
        assert "log cleaner took offsets from 15 on" in scene.run.problem.message
        assert scene.run.problem.hint.startswith("A longer min.compaction.lag.ms or producer.id.expiration.ms")

    with_scene(work, Cursor(5, 5, 15), search_s=search_s)


def test_what_the_target_deleted_may_be_known_in_other_ways() -> None:
    """The leader remembers our producer, a later record of ours tells by its ordinal, the one who had the lane before
    said that it sent nothing more.
    """

    async def remembered(scene: Scene) -> None:
        scene.target.batches, scene.target_start = [OTHERS], 40
        assert await scene.look(50, last_sequence=9) is None
        assert scene.place == (10, 10)

    async def ordinal(scene: Scene) -> None:
        ours = batch(50, 2, producer_id=OURS, sequence=9)
        scene.target.batches, scene.target_start = [OTHERS, ours], 40
        while await scene.look(52) is not None:
            pass
        assert scene.place == (11, 11)

    async def final(scene: Scene) -> None:
        scene.target.batches, scene.target_start, scene.store.is_final = [OTHERS], 40, True
        assert await scene.look(50) is None
        assert scene.place == (5, 5)
        assert not scene.store.is_final, "whoever comes next may not rely on it"
        scene.run.transit, scene.store.is_final = None, True
        assert await scene.look(60, epoch=3) is None
        # Who comes after a crash needs not know what the target has deleted by now.
        assert scene.store.cursor == Cursor(5, 5, 15, looked_to=60, looked_epoch=3)
        scene.run.transit, scene.target_start = None, 60
        assert await scene.look(60, epoch=3) is None
        assert (scene.place, scene.run.state) == ((5, 5), LaneState.STARTING)

    for work in (remembered, ordinal, final):
        for search_s in (1000.0, 0.0):
            with_scene(work, Cursor(5, 5, 15), search_s=search_s)


def test_a_lane_that_rests_knows_its_place_whatever_its_target_deletes() -> None:
    """Nothing was sent behind it since it was placed; once something was, of which nobody heard, that is not so."""

    async def work(scene: Scene) -> None:
        assert await scene.look(15) is None
        scene.target.batches, scene.target_start = [OTHERS], 40
        assert await scene.look(50) is None
        assert (scene.place, scene.run.state) == ((5, 5), LaneState.STARTING)
        scene.run.writer.sent(1)
        scene.run.writer.refused()
        scene.target.batches, scene.target_start = [], 60
        assert await scene.look(60) is None
        assert scene.run.state is LaneState.FAILED

    with_scene(work, Cursor(5, 5, 15))


def test_where_the_target_does_not_tell_what_it_deleted_it_is_asked_again() -> None:
    """No answer says neither that something was deleted nor that nothing was."""

    async def work(scene: Scene) -> None:
        scene.target.batches, scene.target_start = [OTHERS], None
        assert await scene.look(50) is not None
        assert (scene.run.state, scene.run.writer.position) == (LaneState.TARGET_UNAVAILABLE, -1)
        scene.target_start = 40
        assert await scene.look(50) is None
        assert scene.run.state is LaneState.FAILED

    with_scene(work, Cursor(5, 5, 15))


def test_who_may_not_write_any_more_says_nothing_of_a_lane() -> None:
    """Its word would be newer than that of who has the lane by now."""

    async def work(scene: Scene) -> None:
        scene.store.is_final = True
        seen = LogLook(15, 15, None)
        assert (await scene.places.find([Look(scene.run, seen, WHOLE)], lambda: False))[scene.run] is not None
        assert scene.store.is_final
        assert (scene.run.transit, scene.run.writer.position) == (None, -1)

    with_scene(work, Cursor(5, 5, 15))


def test_a_log_without_our_last_record_is_another_one() -> None:
    """Where somebody else's record stands in its place, or nothing any more, nothing is appended."""
    for held, end in (([batch(14, 3, producer_id=THEIRS, sequence=0)], 17), ([], 14)):

        async def work(scene: Scene, held: list[Batch] = held, end: int = end) -> None:
            scene.target.batches = held
            assert await scene.look(end) is None
            assert (scene.run.state, scene.run.writer.position) == (LaneState.DIVERGED, -1)

        with_scene(work, Cursor(5, 5, 15))


def test_a_lane_goes_back_to_its_last_record_that_is_there() -> None:
    """A target that was cut off gets again what it lost, behind what others wrote since; what of it was appended anew
    already is found by its ordinals.
    """
    placed = (MappedRange(0, 10, 10), MappedRange(10, 25, 10), MappedRange(21, 40, 5))
    ours, cursor = batch(10, 10, producer_id=OURS, sequence=0), Cursor(26, 25, 45)
    left, theirs = batch(25, 3, producer_id=OURS, sequence=10), batch(28, 30, producer_id=THEIRS, sequence=0)

    async def cut(scene: Scene) -> None:
        scene.store.ranges, scene.target.batches = placed, [ours, left, theirs]
        assert await scene.look(58) is None
        assert scene.place == (13, 13)
        assert scene.run.transit is not None
        assert scene.run.transit.cursor == Cursor(13, 13, 28, rewound=1)
        assert scene.run.transit.ranges == [MappedRange(0, 10, 10), MappedRange(10, 25, 3)]

    with_scene(cut, cursor)

    async def copied_anew(scene: Scene) -> None:
        again = batch(58, 4, producer_id=OURS, sequence=13)
        scene.store.ranges, scene.target.batches = placed, [ours, left, theirs, again]
        assert await scene.look(62) is None
        assert scene.place == (17, 17)
        assert scene.run.transit is not None
        assert scene.run.transit.ranges[-1] == MappedRange(13, 58, 4)

    with_scene(copied_anew, cursor)

    async def in_place_of_others(scene: Scene) -> None:
        # What was appended anew stands where other records of ours stood: it is not taken for them.
        scene.store.ranges = placed
        scene.target.batches = [batch(10, 4, producer_id=OURS, sequence=0), batch(14, 31, producer_id=OURS, sequence=4)]
        assert await scene.look(45) is None
        assert scene.run.transit is not None
        assert scene.run.transit.ranges == [MappedRange(0, 10, 35)]
        assert scene.place == (35, 35)

    with_scene(in_place_of_others, cursor)

    for batches, lane in (([theirs], LANE), ([ours, left, theirs], replace(LANE, level=1))):

        async def gone(scene: Scene, batches: list[Batch] = batches) -> None:
            scene.store.ranges, scene.target.batches = placed, batches
            assert await scene.look(58) is None
            assert (scene.run.state, scene.run.writer.position) == (LaneState.DIVERGED, -1)

        with_scene(gone, cursor, lane=lane)


def test_what_cannot_be_true_ends_the_lane() -> None:
    """A map that contradicts itself is no place to begin from, and nothing is appended."""

    async def work(scene: Scene) -> None:
        scene.store.problem = Problem("it cannot be true", "copy anew")
        await scene.look(30)
        assert (scene.run.state, scene.run.problem) == (LaneState.FAILED, scene.store.problem)
        assert scene.run.writer.position == -1

    with_scene(work, None)


def test_a_source_that_ends_before_what_was_copied_is_doubted_first() -> None:
    """A new leader may not know better yet; who says so three times has lost records."""

    async def work(scene: Scene) -> None:
        for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE, LaneState.DIVERGED):
            await scene.look(15, last_sequence=4, source=Bounds(0, 4))
            assert scene.run.state is state

    with_scene(work, Cursor(5, 5, 15))


@pytest.mark.parametrize(
    ("known", "epoch", "first", "place"),
    [
        pytest.param(3, 3, 900, (7, 7, 3), id="it leads still, and lost nothing"),
        pytest.param(3, 6, 5, (7, 7, 6), id="another leader has them too"),
        pytest.param(-1, 6, 5, (7, 7, 6), id="of the one before nothing is known"),
        pytest.param(3, 6, 900, None, id="another leader has others"),
        pytest.param(-1, 6, 900, None, id="others, and nothing is known of the one before"),
    ],
)
def test_what_nobody_wrote_down_is_held_against_a_source_with_another_leader(
    known: int, epoch: int, first: int, place: tuple[int, int, int] | None
) -> None:
    """Before its epoch counts as that of what was copied: who lost that in between, and grew again, is found out."""

    async def work(scene: Scene) -> None:
        scene.source.batches = [batch(0, 50, epoch=epoch)]
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1)]
        scene.target.batches += [batch(15, 2, producer_id=OURS, sequence=5, first=first)]
        if place is not None:
            assert await scene.look(17) is None
            assert scene.run.transit is not None
            assert (*scene.place, scene.run.transit.cursor.source_epoch) == place
            return
        for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE, LaneState.DIVERGED):
            await scene.look(17)
            assert scene.run.state is state
        assert scene.run.problem is not None
        assert "not all that was copied up to offset 5 or behind is there any more" in scene.run.problem.message

    with_scene(work, Cursor(5, 5, 15, known))


CONTROL_4 = batch(4, 1, epoch=3)._replace(attributes=CONTROL)


def doubted(scene: Scene, lost_from: int = NO_END) -> Transit:
    """The source says that it does not know the epoch of the lane's place."""
    assert scene.run.transit is not None
    scene.run.transit.doubt(lost_from)
    return scene.run.transit


@pytest.mark.parametrize(
    ("held", "source", "epoch"),
    [
        pytest.param(4, [batch(0, 50, epoch=3)], 3, id="it has the last record"),
        pytest.param(900, [batch(0, 50, epoch=3)], None, id="it has another in its place"),
        pytest.param(4, [batch(0, 4, epoch=3), batch(7, 9, epoch=8)], -1, id="what is gone proves nothing"),
        pytest.param(None, [batch(0, 50, epoch=3)], -1, id="nor does what the target has deleted"),
        pytest.param(4, [batch(0, 4, epoch=3), CONTROL_4], -1, id="nor an end of a transaction before an older place"),
    ],
)
def test_an_epoch_that_the_source_does_not_know_is_found_anew(
    held: int | None, source: list[Batch], epoch: int | None
) -> None:
    """By the last record that was copied: a place whose epoch is none of the source would be refused for ever."""

    async def work(scene: Scene) -> None:
        scene.source.batches = source
        assert await scene.look(15, last_sequence=4) is None
        doubted(scene)
        if held is not None:
            scene.target.batches = [batch(14, 1, producer_id=OURS, sequence=4, first=held)]
        if epoch is None:
            for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE, LaneState.DIVERGED):
                assert scene.run.transit is not None
                await scene.look(15, last_sequence=4)
                assert scene.run.state is state
            return
        assert await scene.look(15, last_sequence=4) is None
        assert scene.run.transit is not None
        assert scene.run.transit.cursor == Cursor(5, 5, 15, epoch)

    with_scene(work, Cursor(5, 5, 15, 6))


@pytest.mark.parametrize("compared_in", [-1, 3], ids=["never", "under another leader"])
def test_a_lane_whose_epoch_is_unknown_is_compared_when_its_source_has_another_leader(compared_in: int) -> None:
    """No request of its reader would tell that the new leader lost what was copied and has others in its place."""
    there = batch(5, 10, producer_id=OURS, sequence=0)

    async def replaced(scene: Scene) -> None:
        scene.run.belief.source_epoch = compared_in
        scene.target.batches, scene.source.batches = [there], [batch(0, 50, first=7)]
        while await scene.look(15) is not None:
            pass
        assert (scene.run.state, scene.run.writer.position) == (LaneState.DIVERGED, -1)

    async def kept(scene: Scene) -> None:
        scene.run.belief.source_epoch = compared_in
        scene.target.batches, scene.source.batches = [there], [batch(0, 50, epoch=2)]
        assert await scene.look(15) is None
        assert scene.place == (10, 10)
        assert scene.run.transit is not None
        assert scene.run.transit.cursor.source_epoch == 2

    for work in (replaced, kept):
        with_scene(work, Cursor(10, 10, 15))


def test_more_than_memory_holds_is_compared_bit_by_bit() -> None:
    """What arrived is little as it is stored, and much once it is decoded: nothing of it is copied a second time."""
    value, size = bytes(1 << 20), 5
    lanes = [
        [Record(at, 1000, b"%d" % at, value, []) for at in range(begin, begin + size)] for begin in range(5, 75, size)
    ]
    source = [encode(records, _ZSTD) for records in lanes]
    target = [
        encode([record._replace(offset=record.offset + 10) for record in records], _ZSTD)._replace(
            producer_id=OURS, base_sequence=records[0].offset
        )
        for records in lanes
    ]

    async def work(scene: Scene) -> None:
        scene.source.batches, scene.target.batches = source, target
        while await scene.look(85, source=Bounds(0, 75)) is not None:
            pass
        assert scene.place == (75, 75)
        assert scene.run.transit is not None
        assert scene.run.transit.ranges == [MappedRange(5, 15, 70)]

    with_scene(work, Cursor(5, 5, 15), lane=replace(LANE, is_compacted=True))


@pytest.mark.parametrize("hole", ["in between", "within a batch"])
def test_what_a_cleaner_took_is_not_counted_whatever_the_policy_of_the_topic_is_now(hole: str) -> None:
    """Four records arrived that nobody had written down, and the source has two of them: it was compacted until then.
    What comes behind them is copied.
    """
    behind = batch(9, 2, first=9)
    left = [batch(5, 1, first=5), batch(8, 1, first=8), behind]
    if hole == "within a batch":
        left = [batch(5, 2, first=5)._replace(offset_end=9), behind]

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(15, 4, producer_id=OURS, sequence=5, first=5)]
        scene.source.batches = left
        assert await scene.look(19) is None
        assert scene.place == (9, 9)

    with_scene(work, Cursor(5, 5, 15, source_epoch=4))


def test_a_hole_is_no_witness_whatever_the_policy_of_the_topic_is_now() -> None:
    """A log cleaner has taken the last record that was copied, and the topic is not compacted any more."""

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1), batch(15, 2, producer_id=OURS, sequence=5)]
        assert await scene.look(17) is None
        assert doubted(scene).ranges == [MappedRange(5, 15, 2)]
        scene.source.batches = [batch(0, 6)._replace(offset_end=10)]
        assert await scene.look(17, last_sequence=6) is None
        assert scene.place == (7, 7)

    with_scene(work, Cursor(5, 5, 15))


def test_what_another_leaf_got_is_no_witness() -> None:
    """A lane that went past it, and has copied nothing since, does not find its last record there."""

    async def work(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4) is None
        doubted(scene)
        scene.target.batches = [batch(14, 1, producer_id=OURS, sequence=4, first=2)]
        assert await scene.look(15, last_sequence=4) is None
        assert scene.place == (5, 9)

    with_scene(work, Cursor(9, 5, 15, 6), lane=replace(LANE, begin_offset=9))


def test_a_source_may_lose_what_was_left_out() -> None:
    """What comes in its place is read; who lost more than that, even if the log is as long again, has diverged."""
    cursor = Cursor(9, 5, 15, 6, left_out=4)

    async def shorter(scene: Scene) -> None:
        scene.source.batches = [batch(0, 7, epoch=3)]
        scene.target.batches = [batch(14, 1, producer_id=OURS, sequence=4, first=4)]
        assert await scene.look(15, last_sequence=4, source=Bounds(0, 7)) is None
        assert scene.run.transit is not None
        assert scene.run.transit.cursor == Cursor(5, 5, 15, 3, rewound=1)
        assert scene.store.cursor == scene.run.transit.cursor, "before a record is copied from there"

    with_scene(shorter, cursor)

    async def more(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4) is None
        doubted(scene, 4)
        for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE, LaneState.DIVERGED):
            await scene.look(15, last_sequence=4)
            assert scene.run.state is state

    with_scene(more, cursor)


def test_records_of_an_older_epoch_than_that_of_the_place_are_compared() -> None:
    """A log that was cut off may have had them since before: counting them would take others for those that came."""

    async def work(scene: Scene) -> None:
        scene.source.batches = [batch(0, 50, epoch=2)]
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1)]
        scene.target.batches += [batch(15, 2, producer_id=OURS, sequence=5, first=900)]
        for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE, LaneState.DIVERGED):
            await scene.look(17)
            assert scene.run.state is state

    with_scene(work, Cursor(5, 5, 15, 3))


def theirs(begin: int, end: int) -> Batch:
    return batch(begin, end - begin, producer_id=THEIRS, sequence=0)


def test_a_log_that_gives_less_than_it_has_says_nothing() -> None:
    """Neither that nothing of ours arrived at the target, nor that the source lost what did: both are read again."""

    async def target(scene: Scene) -> None:
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1), theirs(15, 18)]
        for _ in range(5):
            assert await scene.look(30) is not None
            assert (scene.run.state, scene.run.writer.position) == (LaneState.TARGET_UNAVAILABLE, -1)

    with_scene(target, Cursor(5, 5, 15))

    async def source(scene: Scene) -> None:
        scene.target.batches = [batch(11, 9, producer_id=OURS, sequence=1)]
        scene.source.batches = [batch(0, 7)]
        for _ in range(5):
            assert await scene.look(20) is not None
            assert scene.run.problem is not None
            assert "gives nothing of orders-0 from offset 7 on" in scene.run.problem.message
            assert (scene.run.state.is_terminal, scene.run.writer.position) == (False, -1)

    with_scene(source, Cursor(5, 5, 15))


@pytest.mark.parametrize(
    "start", [pytest.param(7, id="it begins later now"), pytest.param(None, id="it does not tell")]
)
def test_what_a_source_deletes_while_it_is_read_is_not_passed_over(start: int | None) -> None:
    """Records behind what was deleted would be taken for those that arrived, and never be copied."""

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1)]
        scene.target.batches += [batch(15, 2, producer_id=OURS, sequence=5, first=5)]
        # The source was seen to begin at 0. Before it is read, [0, 7) is deleted.
        scene.source.batches, scene.source_start = [batch(7, 43, first=7)], start
        assert await scene.look(17) is not None
        assert scene.run.problem is not None
        assert "does not confirm that orders-0 still begins at offset 5 or before" in scene.run.problem.message
        assert scene.run.transit is not None
        assert (scene.run.transit.cursor, scene.run.writer.position) == (Cursor(5, 5, 15), -1)
        scene.source_start = 7
        assert await scene.look(17, source=Bounds(7, 50)) is None
        assert scene.place == (7, 7)

    with_scene(work, Cursor(5, 5, 15))


def test_doubts_count_in_a_row_only() -> None:
    """A long search whose source is behind now and then is none of a source that has lost records."""

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1)]
        scene.target.batches += [theirs(15 + n * 10, 25 + n * 10) for n in range(8)]
        for _ in range(6):
            await scene.look(95, epoch=3, source=Bounds(0, 4))
            assert not scene.run.is_over
            await scene.look(95, epoch=3)

    with_scene(work, Cursor(5, 5, 15), search_s=0.0)


def test_what_was_searched_is_not_searched_again() -> None:
    """Nor by another lease, as long as the log was not cut off: it is known how far was looked, and in which epoch."""
    held = [batch(11, 4, producer_id=OURS, sequence=1), theirs(15, 500)]

    async def first(scene: Scene) -> None:
        scene.target.batches = held
        assert await scene.look(500, epoch=3) is None
        assert scene.run.transit is not None
        assert scene.run.transit.cursor == Cursor(5, 5, 15, looked_to=500, looked_epoch=3)
        assert scene.target.read_from == [14, 15]

    with_scene(first, Cursor(5, 5, 15))

    async def next_one(scene: Scene) -> None:
        scene.target.batches = [*held, theirs(500, 900), batch(900, 2, producer_id=OURS, sequence=5)]
        assert await scene.look(902, epoch=3) is None
        assert scene.target.read_from == [14, 500], "its last record, and what nobody has looked at"
        assert scene.run.transit is not None
        assert scene.run.transit.cursor == Cursor(7, 7, 902)

    with_scene(next_one, Cursor(5, 5, 15, looked_to=500, looked_epoch=3))

    async def elsewhere(scene: Scene) -> None:
        # The new leader does not say whether the former epoch ended before that.
        scene.target.batches = held
        assert await scene.look(500, epoch=4) is None
        assert scene.target.read_from == [14, 15]
        assert scene.run.transit is not None
        assert (scene.run.transit.cursor.looked_to, scene.run.transit.cursor.looked_epoch) == (500, 4)

    with_scene(elsewhere, Cursor(5, 5, 15, looked_to=500, looked_epoch=3))


def test_a_long_search_is_done_bit_by_bit() -> None:
    """Each look goes on where the one before was, and notes what it found: others are placed meanwhile, and a lease
    that ends in between leaves what it has done.
    """

    async def work(scene: Scene) -> None:
        scene.target.batches = [
            batch(11, 4, producer_id=OURS, sequence=1),
            theirs(15, 100),
            batch(100, 2, producer_id=OURS, sequence=5),
            theirs(102, 200),
            batch(200, 3, producer_id=OURS, sequence=7),
        ]
        places = []
        while await scene.look(203, epoch=3) is not None:
            assert scene.run.writer.position == -1
            assert scene.run.transit is not None
            cursor = scene.run.transit.cursor
            places.append((cursor.ordinal, cursor.target_offset, cursor.looked_to))
        assert places == [(5, 15, 100), (7, 102, -1), (7, 102, 200)]
        assert scene.place == (10, 10)
        assert scene.run.transit is not None
        assert [tuple(one) for one in scene.run.transit.ranges] == [(5, 100, 2), (7, 200, 3)]

    with_scene(work, Cursor(5, 5, 15), search_s=0.0)


def test_what_arrived_is_counted_by_what_was_selected_then() -> None:
    """A distributor that is told another way to keep flags counts what arrived before by the former one, and writes the
    new one down before it appends anything.
    """
    former, header = Selection(level=1), FlagsHeader()
    lane = replace(LANE, level=1, flags=header)

    async def work(scene: Scene) -> None:
        flagged = [Record(n, 1000, None, b"%d" % n, [("copy-flags", b"\x01")]) for n in range(50)]
        scene.source.batches = [encode(flagged, 0)]
        scene.target.batches = [batch(11, 4, producer_id=OURS, sequence=1), batch(15, 2, producer_id=OURS, sequence=5)]
        scene.store.is_away = True
        assert await scene.look(17) is not None
        assert scene.run.writer.position == -1
        scene.store.is_away = False
        assert await scene.look(17) is None
        assert scene.place == (7, 7)
        assert scene.store.cursor == Cursor(7, 7, 17, selection=lane.selection, rewound=1)

    with_scene(work, Cursor(5, 5, 15, selection=former), lane=lane)


@pytest.mark.parametrize("told", ["at rest", "in flight since", "moved since", "ended since"])
def test_how_far_others_are_is_noted_of_a_lane_at_rest(told: str) -> None:
    """Only where nothing of it can lie before the end that its target tells: the next owner, too, may have written."""

    async def work(scene: Scene) -> None:
        assert await scene.look(15, last_sequence=4) is None
        run = scene.run
        assert run.transit is not None
        run.phase = run.phase.placed()
        transit, may_write = run.transit, True

        async def ask(keys: Iterable[tuple[str, int]], asking: Callable[..., Any]) -> dict[tuple[str, int], Offset]:
            nonlocal may_write
            with contextlib.suppress(AttributeError):
                await asking(None, dict.fromkeys(keys, 3))
            if told == "in flight since":
                run.writer.sent(2)
            elif told == "moved since":
                transit.cursor = Cursor(6, 6, 900)
            may_write = told != "ended since"
            return {run.target: Offset(0, 2_000)}

        fakes: Any = scene.places
        fakes._target = SimpleNamespace(ask=ask)
        await scene.places.look_on([run], lambda: may_write)
        assert transit.cursor.looked_to == (2_000 if told == "at rest" else -1)

    with_scene(work, Cursor(5, 5, 15))


def test_a_silent_broker_delays_its_own_lanes_only() -> None:
    """However many lanes wait for what it does not give, those of other brokers are looked for."""

    async def work(scene: Scene) -> None:
        silent = [replace(LANE, partition=partition) for partition in range(1, 41)]
        runs = [LaneRun(lane, Writer(abandoned=False, is_mapped=True)) for lane in silent]
        for run in runs:
            run.transit = Transit(Cursor(5, 5, 15))
        reads, held = scene.target.read, LogLook(16, 16, None)

        def read(span: OffsetRange) -> AsyncGenerator[list[StoredBatch], None]:
            return reads(span) if span.partition == 0 else never()

        async def never() -> AsyncGenerator[list[StoredBatch], None]:
            await asyncio.Event().wait()
            yield []

        fakes: Any = scene.places
        fakes._target_log = SimpleNamespace(read=read)
        waiting = asyncio.create_task(scene.places.find([Look(run, held, WHOLE) for run in runs]))
        await asyncio.sleep(0)
        async with asyncio.timeout(TERM_S):
            assert await scene.look(15) is None
        waiting.cancel()

    with_scene(work, Cursor(5, 5, 15))


@pytest.mark.parametrize("is_compared", [False, True], ids=["counted", "compared"])
def test_what_is_decoded_stops_nobody_else(is_compared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All leases of a task share one event loop, which goes on while records are decoded, however long that takes."""
    turned, decoded = threading.Event(), list[bool]()

    def waiting(batch: Batch) -> list[Record]:
        decoded.append(turned.wait(TERM_S))
        return records_of(batch)

    for module in (scanning, places):
        monkeypatch.setattr(module, "records_of", waiting)

    async def turning() -> None:
        while not decoded:
            await asyncio.sleep(0.001)
            turned.set()

    async def work(scene: Scene) -> None:
        scene.target.batches = [batch(15, 4, producer_id=OURS, sequence=5, first=5)]
        others = asyncio.create_task(turning())
        assert await scene.look(19) is None
        await others
        assert all(decoded)
        assert scene.place == (9, 9)

    # The epochs of what is counted are others, so it is held against the source as well.
    with_scene(work, Cursor(5, 5, 15, source_epoch=3), lane=replace(LANE, is_compacted=is_compared))


CHANGED = replace(LANE, transform="new")
DEPARTED = Departure(-1, (Stretch(5, 20, 2, 4), Stretch(7, 31, 3, 4)), (Skips(7, 9),))


def changed_scene(client: Client, departure: Departure, *, lane: Lane = CHANGED, epoch_end: int = 50) -> Scene:
    """A lane whose last owner had changed records by another transform, behind five that are in the ledger."""
    scene = Scene(client, Cursor(10, 5, 30, 4, transform="old"), lane=lane)
    scene.store.departed = departure
    # Whatever it is asked for at the source is the end of an epoch.
    scene.source_start = epoch_end
    scene.source.batches.clear()
    scene.target.batches = [batch(25, 5, producer_id=OURS, sequence=0), batch(30, 1, producer_id=THEIRS)]
    return scene


def with_changed(work: Callable[[Client], Any]) -> None:
    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            await work(client)

    asyncio.run(scenario())


@pytest.mark.parametrize("lane", [CHANGED, LANE], ids=["with another transform", "without a transform"])
def test_changed_records_that_arrived_are_those_that_departed(lane: Lane) -> None:
    """The source is not read for it; the lane goes on behind them with its own transform, which is stored first."""

    async def work(client: Client) -> None:
        scene = changed_scene(client, DEPARTED, lane=lane)
        scene.target.batches.append(batch(31, 4, producer_id=OURS, sequence=5))
        assert await scene.look(35, epoch=3) is None
        assert scene.place == (9, 33)
        transit, cursor = scene.run.transit, scene.store.cursor
        assert transit is not None
        assert cursor is not None
        assert transit.ranges == [MappedRange(20, 31, 2), MappedRange(31, 33, 2)]
        stored = (cursor.source_offset, cursor.ordinal, cursor.target_offset, cursor.skipped, cursor.transform)
        assert stored == (33, 9, 35, 9, lane.transform)
        assert transit.depart().stretches == ()
        assert scene.source.read_from == []

    with_changed(work)


def test_nothing_is_guessed_of_changed_records() -> None:
    """More of ours is there than departed by the ledger: the lane ends."""

    async def work(client: Client) -> None:
        for stretches in (DEPARTED.stretches[:1], DEPARTED.stretches[1:], ()):
            scene = changed_scene(client, Departure(-1, stretches))
            scene.target.batches.append(batch(31, 4, producer_id=OURS, sequence=5))
            assert await scene.look(35) is None
            assert scene.run.state is LaneState.FAILED
            assert scene.run.problem is not None
            assert "where they come from" in scene.run.problem.message

    with_changed(work)


def test_a_source_that_lost_changed_records_ends_the_lane() -> None:
    """Its log goes on, in a later epoch: that of the last record ends before it."""

    async def work(client: Client) -> None:
        scene = changed_scene(client, DEPARTED, epoch_end=32)
        scene.target.batches.append(batch(31, 4, producer_id=OURS, sequence=5))
        delays = [await scene.look(35) for _ in range(3)]
        assert delays[-1] is None
        assert scene.run.state is LaneState.DIVERGED

    with_changed(work)


def test_a_place_that_cannot_be_stored_is_none() -> None:
    """Departures count from the stored place on. What departed before stays known."""

    async def work(client: Client) -> None:
        scene = changed_scene(client, DEPARTED)
        scene.target.batches.append(batch(31, 4, producer_id=OURS, sequence=5))
        scene.store.is_away = True
        assert await scene.look(35) is not None
        assert scene.run.writer.position == -1
        scene.store.is_away = False
        assert await scene.look(35) is None
        assert scene.place == (9, 33)

    with_changed(work)


def test_a_lane_of_a_lease_that_lapsed_is_loaded_again() -> None:
    """Another owner may have continued it."""

    async def work(client: Client) -> None:
        scene = changed_scene(client, DEPARTED)
        assert await scene.look(31) is None
        assert scene.place == (5, 10)
        assert scene.run.transit is not None
        scene.run.transit.outdate()
        assert scene.run.needs_progress
        scene.target.batches.append(batch(31, 4, producer_id=OURS, sequence=5))
        assert await scene.look(35) is None
        assert scene.place == (9, 33)

    with_changed(work)
