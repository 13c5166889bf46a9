"""Requests of the fast path: when they leave, and what is known of them when no answer comes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.engine.appender import TargetAppender
from isthmus.engine.run import LaneRun
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.writer import AppendVerdict, Writer
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.produce import Answers, Appended
from isthmus.model.lane import LaneState
from testing.records.stored import PLAIN, one, stored
from testing.values.engines import Part
from testing.values.leader import Led
from testing.values.looks import lane_of

STEPS = 1000


def ready() -> LaneRun:
    """A lane that is in its place and has a batch to send."""
    run = lane_of(one(stored(0, [PLAIN] * 5)), position=0)
    run.phase = Phase.FLOWING
    return run


class Offering(Part):
    """An engine that has lanes go on when they were answered."""

    appender: TargetAppender

    def appended(self, told: list[Any], now_ms: float) -> None:
        for parcel, _, _ in told:
            self.advanced(parcel.run, parcel.pieces, parcel.batch.record_count)
            self.appender.offer(parcel.run)


def appended(
    run: LaneRun, engine: Part, led: Led, answer: Callable[[asyncio.Future[Answers]], None], *, posted: int = 0
) -> None:
    """Offer a lane to an appender, until so many requests were posted and no more follow; `answer` is called for every
    one that leaves.
    """

    async def dial(_: int) -> Connection:
        return led.connection

    async def scenario() -> None:
        appender = TargetAppender(1, engine, dial)
        if isinstance(engine, Offering):
            engine.appender = appender
        appender.offer(run)
        running = asyncio.create_task(appender.run())
        answered = quiet = 0
        while quiet < STEPS:
            await asyncio.sleep(0)
            quiet += len(led.posted) >= posted
            for future in led.posted[answered:]:
                answer(future)
                answered += 1
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())


def test_what_is_acknowledged_is_told() -> None:
    """The lane moves on by what its leader took. Whether it may be sent is asked again when it leaves."""
    run, engine, led = ready(), Part(), Led()

    def well(future: asyncio.Future[Answers]) -> None:
        future.set_result(Answers({run.keys.answers[0]: Appended(codes.NONE, 0, None)}, 0))

    appended(run, engine, led, well)
    assert engine.told == [(run, AppendVerdict.ADVANCED)]
    assert led.permissions == [engine.may_send]
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (5, False, False)


def test_an_append_without_an_answer_may_be_in_the_log() -> None:
    """Or arrive there later: the lane settles before it goes on."""
    run, engine, led = ready(), Part(), Led()
    appended(run, engine, led, lambda future: future.set_exception(Unreachable("gone", cluster="nowhere")))
    assert len(led.posted) == 1
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (0, False, True)
    assert run.state is LaneState.TARGET_UNAVAILABLE


def test_an_append_that_a_broker_over_its_quota_holds_back_comes_in_later() -> None:
    """As late as it said that it reads on: until then nobody knows where the log ends."""
    run, engine, led = ready(), Part(), Led()

    def muted(future: asyncio.Future[Answers]) -> None:
        led.muted_until = 1000.0
        future.set_exception(Unreachable("gone", cluster="nowhere"))

    appended(run, engine, led, muted)
    assert (run.writer.abandoned, run.writer.held_until) == (True, 1000.0)
    run.writer.abandon(900.0)
    assert run.writer.held_until == 1000.0


def test_an_append_is_abandoned_with_its_appender() -> None:
    """Whoever ends while an answer is awaited does not know what became of it."""
    run, led = ready(), Led()
    appended(run, Part(), led, lambda _: None)
    assert len(led.posted) == 1
    assert (run.writer.in_flight, run.writer.abandoned) == (False, True)


def test_nothing_leaves_once_writing_is_forbidden() -> None:
    """It is asked again when the request is ready; what was to be sent is offered anew."""
    run, led = ready(), Led()
    appended(run, Part(allowed=[True, False]), led, lambda _: None)
    assert led.posted == []
    assert (run.writer.in_flight, run.writer.abandoned, run.schedule.is_queued) == (False, False, True)


def test_a_lane_that_is_not_plain_is_handed_over() -> None:
    """What cannot pass as bytes is for the detour."""
    run, engine, led = ready(), Part(), Led()
    run.intake.pending[0] = run.intake.pending[0]._replace(is_plain=False)
    appended(run, engine, led, lambda _: None)
    assert (engine.handed_over, led.posted) == ([run], [])


@pytest.mark.parametrize(("throttle_ms", "posted"), [(0, 3), (1, 2)])
def test_nothing_waits_at_a_broker_that_throttles(throttle_ms: int, posted: int) -> None:
    """It would be appended when the broker reads on, although we gave it up long ago: one request after the other."""
    now = PLAIN._replace(timestamp=int(time.time() * 1000))
    run = lane_of(*(one(stored(offset, [now] * 40)) for offset in (0, 40, 80)), position=0)
    run.writer = Writer(abandoned=False, expiration_ms=86_400_000)
    run.writer.position = 0
    run.phase = Phase.FLOWING
    led = Led()

    def first_only(future: asyncio.Future[Answers]) -> None:
        if led.posted[0] is future:
            future.set_result(Answers({run.keys.answers[0]: Appended(codes.NONE, 0, None)}, throttle_ms))

    appended(run, Offering(), led, first_only, posted=posted)
    assert len(led.posted) == posted
