"""Nothing leaves an engine whose time is over, wherever in its work that happens; its lanes go on when it is back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from isthmus.engine.engine import Engine
from isthmus.engine.run import LaneRun
from isthmus.engine.same.markers import AT_ONCE
from isthmus.kafka.connect.connection import Connection
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.transactions import interleave
from testing.runs.mirror import Mirror, Reports, caught_up, lanes_of, reached

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
WRITES = {
    "Produce",
    "WriteTxnMarkersRequest",
    "InitProducerIdRequest",
    "AddPartitionsToTxnRequest",
    "EndTxnRequest",
    "DeleteRecordsRequest",
}


class Hourglass:
    """Ends an engine's time with the `answers`-th answer of its target; `late` are the writes that left afterwards."""

    def __init__(self, engine: Engine, answers: int) -> None:
        self.is_over = False
        self.late: list[str] = []
        self._engine, self._left = engine, answers

    def posted(self, what: str, answer: asyncio.Future[Any]) -> None:
        # What was refused is answered at once.
        if self.is_over and what in WRITES and not answer.done():
            self.late.append(what)
        answer.add_done_callback(self._answered)

    def _answered(self, _: object) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_over = True
            # What a process sees that was stopped for long: the answer is there, and the time is over.
            self._engine.write_until(0.0)


@contextmanager
def running_out(monkeypatch: pytest.MonkeyPatch, engine: Engine, answers: int) -> Iterator[Hourglass]:
    """The time of the engine ends with that answer of its target."""
    glass, post = Hourglass(engine, answers), Connection.post_frame

    def watched(self: Connection, *args: Any, **settings: Any) -> asyncio.Future[Any]:
        answer = post(self, *args, **settings)
        if self.cluster == engine._target.cluster.alias:
            glass.posted(settings["what"], answer)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "post_frame", watched)
        yield glass


def is_idle(run: LaneRun) -> Callable[[Reports], bool]:
    """Nobody works on this run of a lane."""
    return lambda _: not run.phase.is_detoured


@pytest.mark.parametrize("way", ["by itself", "by a coordinator"])
def test_nothing_leaves_when_the_time_is_over(
    east: LocalCluster,
    west: LocalCluster,
    guarded: LocalCluster,
    topic: TopicNamer,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """Whichever answer a worker was frozen before, it writes nothing when it wakes up; the next engine goes on."""
    target = west if way == "by itself" else guarded
    name = topic("frozen")
    topics.create_both(east, target, name)
    topics.fill(east, name, 250_000)
    interleave(east, name, chance, steps=25, producers=2)
    topics.delete_records(east, name, 249_990)
    mirror = Mirror(east, target)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario(answers: int) -> bool:
        async with mirror.running(name, engine={"settle_s": 0.05}) as running:
            with running_out(monkeypatch, running.engine, answers) as glass:
                run = running.engine.lanes[key]
                await running.until(lambda reports: glass.is_over or caught_up(reports), look_s=0)
                if not glass.is_over:
                    return True
                await running.until(is_idle(run), look_s=0)
                await running.engine.stop()
            assert glass.late == [], f"after answer {answers}"
            return False

    for answers in count(1):
        if asyncio.run(scenario(answers)):
            break

    assert oracle.assert_same(east, target, name) > 0


def test_a_pause_stops_filling_and_a_lane_that_is_back_waits(
    mirror: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """A lane removed while a gap is filled stops at once; added again it goes on when the former one is done."""
    name = topic("paused")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(10, chance))
    mirror.copy(name)
    topics.fill(mirror.source, name, 20_000, behind=10)
    topics.produce(mirror.source, name, topics.some(10, chance))
    topics.delete_records(mirror.source, name, 20_010)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name, continues_after_gap=True) as running:
            engine = running.engine
            lanes = await lanes_of(running.source, running.target, (name,), continues_after_gap=True)
            for offset in (1_000, 5_000, 9_000):
                await running.until(reached(offset), look_s=0)
                former = engine.lanes[key]
                assert former.phase.is_detoured
                engine.remove([key])
                stopped_at = former.writer.position
                engine.add(lanes)
                await running.until(is_idle(former), look_s=0)
                assert former.writer.position <= stopped_at + AT_ONCE
            await running.until(caught_up)

    asyncio.run(scenario())

    assert oracle.ends(mirror.target.admin_bootstrap_servers, name).high == 20_020
    here, there = (
        oracle.records(cluster.admin_bootstrap_servers, name)[0] for cluster in (mirror.source, mirror.target)
    )
    assert [record.offset for record in there] == [*range(10), *range(20_010, 20_020)]
    oracle.assert_equal(there[10:], here, name)


def test_a_short_lapse_is_followed_by_a_wake_up(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Records that came while the time was over for a moment, which nobody noticed, are copied when it goes on."""
    name, other = topic("lapsed"), topic("lapsed")
    for each in (name, other):
        topics.create_both(mirror.source, mirror.target, each)
        topics.produce(mirror.source, each, topics.some(5, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name, other) as running:
            await running.until(caught_up)
            running.engine.write_until(0.0)
            topics.produce(mirror.source, name, topics.some(5, chance))
            interleave(mirror.source, other, chance, steps=10)
            await running.until(
                lambda reports: (
                    reports[key].source_end == 10 and reports[LaneKey(TargetTopic(other), 0)].lag_records > 0
                )
            )
            assert running.reports[key].position == 5
            running.engine.write_until(None)
            await running.until_copied()

    asyncio.run(scenario())

    assert oracle.assert_same(mirror.source, mirror.target, name) == 10
    oracle.assert_same(mirror.source, mirror.target, other)
