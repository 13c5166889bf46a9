"""Requests of the fast path: when they leave, and what is known of them when no answer comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from isthmus.errors import Unreachable
from isthmus.lane.appender import TargetAppender
from isthmus.lane.run import LaneRun
from isthmus.lane.writer import Verdict
from isthmus.model.lane import LaneState
from isthmus.wire import codes
from isthmus.wire.connection import Connection
from isthmus.wire.produce import Answers, Appended
from tests.unit.lane.engines import Part
from tests.unit.lane.leader import Led
from tests.unit.lane.looks import lane_of
from tests.unit.wire.stored import PLAIN, one, stored

STEPS = 1000


def ready() -> LaneRun:
    """A lane that is in its place and has a batch to send."""
    run = lane_of(one(stored(0, [PLAIN] * 5)), position=0)
    run.is_placed = True
    return run


def appended(run: LaneRun, engine: Part, led: Led, answer: Callable[[asyncio.Future[Answers]], None]) -> None:
    """Offer a lane to an appender; `answer` is called for every request that leaves."""

    async def dial(_: int) -> Connection:
        return led.connection

    async def scenario() -> None:
        appender = TargetAppender(1, engine, dial)
        appender.offer(run)
        running = asyncio.create_task(appender.run())
        answered = 0
        for _ in range(STEPS):
            await asyncio.sleep(0)
            for future in led.posted[answered:]:
                answer(future)
                answered += 1
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())


def test_what_is_acknowledged_is_told() -> None:
    """The lane moves on by what its leader took."""
    run, engine, led = ready(), Part(), Led()

    def well(future: asyncio.Future[Answers]) -> None:
        future.set_result(Answers({run.answer_keys[0]: Appended(codes.NONE, 0, None)}, 0))

    appended(run, engine, led, well)
    assert engine.told == [(run, Verdict.ADVANCED)]
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (5, False, False)


def test_an_append_without_an_answer_may_be_in_the_log() -> None:
    """Or arrive there later: the lane settles before it goes on."""
    run, engine, led = ready(), Part(), Led()
    appended(run, engine, led, lambda future: future.set_exception(Unreachable("gone", cluster="nowhere")))
    assert len(led.posted) == 1
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (0, False, True)
    assert run.state is LaneState.TARGET_UNAVAILABLE


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
    assert (run.writer.in_flight, run.writer.abandoned, run.is_queued) == (False, False, True)


def test_a_lane_that_is_not_plain_is_handed_over() -> None:
    """What cannot pass as bytes is for the detour."""
    run, engine, led = ready(), Part(), Led()
    run.pending[0] = run.pending[0]._replace(is_plain=False)
    appended(run, engine, led, lambda _: None)
    assert (engine.handed_over, led.posted) == ([run], [])
