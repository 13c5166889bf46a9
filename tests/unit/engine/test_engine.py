"""What the engine makes of answers, without brokers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.brokers.routes import Leader
from isthmus.engine.engine import Engine
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.engine.state.phase import Phase
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.log.fetch import Fetched
from isthmus.model.lane import Lane, LaneState
from isthmus.model.link import Limits
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from testing.values.looks import NOWHERE, PRODUCER, been_at

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=0,
)


@asynccontextmanager
async def working(**settings: Any) -> AsyncIterator[Engine]:
    """An engine between clusters that do not answer."""
    async with Client(NOWHERE) as client:
        yield Engine(source=client, target=client, producer=PRODUCER, link="link", **settings)


def written(engine: Engine) -> LaneRun:
    """A lane whose one batch is on its way to the target."""
    engine.add([LANE])
    run = engine.lanes[LANE.key]
    batch = encode([Record(0, 1, None, b"v", [])], 0)
    run.phase = Phase.FLOWING
    run.heal()
    run.intake.read_from(0)
    run.offer(iter([Piece(batch, is_plain=True, is_aborted=False)]))
    run.writer.sent(1)
    return run


@pytest.mark.parametrize("state", [LaneState.NOT_AUTHORIZED, LaneState.SOURCE_UNAVAILABLE])
def test_what_was_written_before_does_not_hide_that_the_source_cannot_be_read(state: LaneState) -> None:
    """A lane whose source is refused or away says so, although an append of what was read before it succeeds later."""

    async def scenario() -> None:
        async with working() as engine:
            run = written(engine)
            if state is LaneState.NOT_AUTHORIZED:
                refused = Fetched(run.source, 1, codes.TOPIC_AUTHORIZATION_FAILED, -1, -1, -1, [], b"")
                engine.faults.misread(run, refused)
            else:
                engine.faults.source_lost([run], Unreachable("away", cluster="nowhere"))
            engine.advanced(run, 1, 1)
            assert (run.state, run.tally.records) == (state, 1)

    asyncio.run(scenario())


def test_a_lane_that_comes_back_goes_on_counting() -> None:
    """What it copied before a pause, and what is answered only after it, is in the report when it runs again."""

    async def scenario() -> None:
        async with working() as engine:
            former = written(engine)
            engine.remove([LANE.key])
            engine.add([LANE])
            engine.advanced(former, 1, 1)
            again = written(engine)
            engine.advanced(again, 1, 1)
            (report,) = engine.lanes.reports()
            assert (again is former, report.state, report.records) == (False, LaneState.ACTIVE, 2)
            assert report.size_bytes > 2

    asyncio.run(scenario())


@pytest.mark.parametrize("state", [LaneState.STOPPED, LaneState.FOREIGN_WRITE])
def test_what_a_lane_had_read_makes_room_when_it_is_over(state: LaneState) -> None:
    """Bytes of a lane that was removed or has ended do not count against the limit, once nothing of it is in flight."""

    async def scenario() -> None:
        async with working(limits=Limits(bytes_in_flight=2)) as engine:
            run = written(engine)
            engine.received(run, run.intake.size_bytes)
            if state is LaneState.STOPPED:
                engine.remove([LANE.key])
            else:
                run.fail(state, "somebody else writes")
            engine._spawn(engine._keep_house())
            await asyncio.sleep(0)
            assert run.intake.size_bytes
            run.writer.answered(codes.UNKNOWN_TOPIC_ID, -1)
            while run.intake.size_bytes:
                await asyncio.sleep(0.05)
            assert not engine.room.is_tight
            await engine.stop()

    asyncio.run(scenario())


def test_a_lane_that_is_removed_makes_room_at_once() -> None:
    """A paused topic with a backlog does not stall the other lanes of its lease."""

    async def scenario() -> None:
        async with working(limits=Limits(bytes_in_flight=2)) as engine:
            run = written(engine)
            engine.received(run, run.intake.size_bytes)
            run.writer.refused()
            engine.remove([LANE.key])
            assert not engine.room.is_tight

    asyncio.run(scenario())


def test_a_lane_that_comes_back_waits_for_its_former_end() -> None:
    """While something of the former run is on its way the log moves; how that went is then the next one's to know."""

    async def scenario() -> None:
        async with working(abandoned=False) as engine:
            former = written(engine)
            engine.remove([LANE.key])
            engine.add([LANE])
            run = engine.lanes[LANE.key]
            assert (engine.lanes.is_alone(run), engine.lanes.is_clean) == (False, False)
            former.writer.abandon()
            assert (engine.lanes.is_alone(run), run.writer.abandoned) == (True, False)
            engine.inherit(run)
            assert (run.writer.abandoned, engine.lanes.is_clean) == (True, False)
            run.writer.abandoned = False
            engine.inherit(run)
            assert (run.writer.abandoned, engine.lanes.is_clean) == (False, True)

    asyncio.run(scenario())


def test_a_lapse_nobody_noticed_is_followed_by_a_look() -> None:
    """However short writing was not allowed, places are looked up anew when it is: others may have written."""

    async def scenario() -> None:
        async with working() as engine:
            run = written(engine)
            engine.write_until(lasting_s() + 60)
            assert (run.phase.is_placed, engine.may_go_on(run)) == (True, True)
            engine.write_until(0.0)
            assert (run.phase.is_placed, engine.may_send()) == (True, False)
            engine.write_until(None)
            assert (run.phase.is_placed, engine.may_send(), engine.may_go_on(run)) == (False, True, False)

    asyncio.run(scenario())


@pytest.mark.parametrize(("read_epoch", "is_read"), [(3, True), (-1, False)], ids=["known", "unknown"])
def test_a_new_leader_is_read_at_once_only_if_it_can_tell_of_truncation(read_epoch: int, is_read: bool) -> None:
    """Without the epoch of what was read last the new leader's log is held against the target first."""

    async def scenario() -> None:
        async with working() as engine:
            engine.add([LANE])
            run = engine.lanes[LANE.key]
            run.writer.position, run.belief.source_epoch = 100, 4
            run.intake.read_from(100, read_epoch)
            engine._resolver._due.clear()
            engine._source_routes._leaders[run.source] = Leader(1, 5)
            engine.reroute(run)
            engine._spawn(engine.readers.run())
            while engine.readers.unrouted:
                await asyncio.sleep(0)
            assert (run in engine.readers) is is_read
            assert (run in engine._resolver._due) is not is_read
            await engine.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_unsettled", [True, False])
def test_a_lane_whose_former_lease_left_something_on_its_way(is_unsettled: bool) -> None:
    """It settles although the lease before this one left nothing, whether it is there from the beginning or joins."""

    async def scenario() -> None:
        async with working(writable=False) as engine:
            lanes = [replace(LANE, partition=n, is_unsettled=is_unsettled) for n in (0, 1)]
            engine.add(lanes[:1])
            engine.allow_writes(abandoned=False)
            engine.add(lanes[1:])
            assert [engine.lanes[lane.key].writer.abandoned for lane in lanes] == [is_unsettled] * 2
            assert engine.lanes.is_clean is not is_unsettled

    asyncio.run(scenario())


def test_an_engine_stops_when_a_broker_over_its_quota_reads_on() -> None:
    """What it was sent and nobody heard the answer to comes in before the next lease looks."""

    async def scenario() -> None:
        async with working() as engine:
            reads_on = time.monotonic() + 0.2
            written(engine).writer.abandon(reads_on)
            await engine.stop()
            assert time.monotonic() >= reads_on

    asyncio.run(scenario())


def test_milestones_are_those_of_the_same_topics() -> None:
    """One of a topic that was created anew since says nothing of the lane."""

    async def scenario() -> None:
        async with working(writable=False) as engine:
            engine.add([LANE])
            run = engine.lanes[LANE.key]
            milestone = been_at(run, 100)
            for told, found in (
                (replace(milestone, source_topic_id=uuid.UUID(int=9)), None),
                (replace(milestone, target_topic_id=uuid.UUID(int=9)), None),
                (milestone, milestone),
            ):
                engine.allow_writes(abandoned=True, marks=[told])
                assert run.belief.milestone == found

    asyncio.run(scenario())


def test_what_is_read_while_a_mapped_lane_is_placed_is_not_counted() -> None:
    """An answer that comes when the place is found, before it is read anew from there, leaves no ordinals behind."""

    async def scenario() -> None:
        async with working() as engine:
            engine.add([replace(LANE, is_mapped=True)])
            run = engine.lanes[LANE.key]
            run.transit = Transit(Cursor(10, 10, 10))
            run.transit._read(20, 5, 0)
            run.writer.placed(10)
            engine.place(run)
            assert (run.transit.read_ordinal, run.intake.read_offset) == (10, 10)

    asyncio.run(scenario())
