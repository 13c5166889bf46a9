"""When the resolver looks, and when it rests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Final, Literal

import pytest

from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.resolver import Resolver
from isthmus.lane.routes import Leader, Routes
from isthmus.lane.run import LaneRun, TailCheck
from isthmus.lane.writer import LogLook, Writer
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.wire.client import Client
from tests.unit.lane.looks import NOWHERE, Told, lane_of
from tests.unit.wire.stored import PLAIN, one, stored

LANE: Final = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=0,
)


class Placed:
    """An engine that lets lanes be placed, or not yet."""

    producer = ProducerIdentity(producer_id=1, marker_producer_id=2)

    def __init__(self, *, is_allowed: bool = True) -> None:
        self._is_allowed = is_allowed
        self.placed: list[LaneRun] = []

    def may_write(self) -> bool:
        return self._is_allowed

    def is_alone(self, run: LaneRun) -> bool:
        return True

    def place(self, run: LaneRun) -> None:
        self.placed.append(run)


def test_it_ends_even_if_it_is_woken_at_that_moment() -> None:
    """Being cancelled counts, whatever else happens: an engine that stops waits for it."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            routes = Routes(client)
            resolver = Resolver(Placed(is_allowed=False), routes, routes, settle_s=0.0)
            resolver.add(LaneRun(LANE, Writer(abandoned=False)))
            running = asyncio.create_task(resolver.run())
            for _ in range(10):
                await asyncio.sleep(0)
            resolver.wake()
            running.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert running.cancelled()

    asyncio.run(scenario())


class Counted(asyncio.Event):
    """An event that counts how often it is waited for."""

    waits = 0

    async def wait(self) -> Literal[True]:
        self.waits += 1
        return await super().wait()


def look(run: LaneRun, resolver: Resolver, end: int) -> None:
    """The target's log ends there."""
    assert resolver._looked(run, LogLook(end, end, None))


def test_what_is_believed_of_the_end_of_the_log() -> None:
    """The owner before vouches for where it ends by its mark. Whatever else is found is held against the source, and so
    is the same end once the source has another leader.
    """

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            source, target = Routes(client), Routes(client)
            resolver = Resolver(Placed(), source, target, settle_s=0.0)
            source._leaders[LANE.source_topic, LANE.partition] = Leader(1, 9)
            for left, end, check, epoch in (
                (None, 100, TailCheck.CONTENT, -1),
                (100, 100, TailCheck.PRODUCER, 7),
                (100, 101, TailCheck.CONTENT, -1),
                (100, 99, TailCheck.CONTENT, 7),
            ):
                run = LaneRun(LANE, Writer(abandoned=False))
                run.left = None if left is None else LaneMark(*LANE.key, left, 7)
                look(run, resolver, end)
                assert (run.tail_check, run.is_known, run.read_epoch) == (check, left == end, epoch)
            run.tail_check, run.is_known, run.source_epoch = TailCheck.DONE, True, 9
            look(run, resolver, 99)
            assert run.tail_check is TailCheck.DONE
            source._leaders[LANE.source_topic, LANE.partition] = Leader(2, 10)
            look(run, resolver, 99)
            assert (run.tail_check, run.is_known) == (TailCheck.CONTENT, True)
            look(run, resolver, 98)
            assert (run.tail_check, run.is_known) == (TailCheck.CONTENT, False)

    asyncio.run(scenario())


def test_a_lane_that_ends_is_looked_for_no_more() -> None:
    """A lane may end while its place is in doubt: the resolver then rests until somebody else is."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            routes = Routes(client)
            resolver = Resolver(Placed(), routes, routes, settle_s=0.0)
            resolver._wake = wake = Counted()
            run = LaneRun(LANE, Writer(abandoned=False))
            resolver.add(run)
            run.fail(LaneState.STOPPED, "stopped as asked")
            running = asyncio.create_task(resolver.run())
            for _ in range(1000):
                await asyncio.sleep(0)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert wake.waits == 1

    asyncio.run(scenario())


async def resolved(work: Callable[[Resolver], None], *, settle_s: float = 0.0, engine: Placed | None = None) -> None:
    """Do something with a resolver whose source and target have the same leader."""
    async with Client(NOWHERE) as client:
        work(Resolver(engine or Placed(), Told(client), Told(client), settle_s=settle_s))


def test_the_settling_time_counts_from_the_last_look_that_asked_for_it() -> None:
    """A request that is abandoned later has the whole time, although the lane was looked at before."""
    run = LaneRun(LANE, Writer(abandoned=False))

    def work(resolver: Resolver) -> None:
        look(run, resolver, 5)
        run.writer.abandon()
        assert not resolver._looked(run, LogLook(5, 5, None))
        assert not resolver._looked(run, LogLook(5, 5, None))
        resolver._looked_at[run] -= 60.0
        look(run, resolver, 5)
        assert not run.writer.abandoned

    asyncio.run(resolved(work, settle_s=60.0))


def test_an_owner_that_left_something_on_its_way_does_not_vouch_for_the_end() -> None:
    """Its mark was true when it was made; what arrived since is compared with the source."""

    def work(resolver: Resolver) -> None:
        for abandoned, check in ((False, TailCheck.PRODUCER), (True, TailCheck.CONTENT)):
            run = LaneRun(LANE, Writer(abandoned=abandoned))
            run.left = LaneMark(*LANE.key, 100, 7)
            resolver._looked(run, LogLook(100, 100, None))
            if abandoned:
                look(run, resolver, 100)
            assert run.tail_check is check

    asyncio.run(resolved(work))


@pytest.mark.parametrize(
    ("begins", "position", "is_held"), [(3, 3, True), (3, 5, True), (4, 3, False), (3, 6, False), (None, 3, False)]
)
def test_what_the_source_deleted_may_be_here(begins: int | None, position: int, is_held: bool) -> None:
    """What was read before it was deleted can still be written, if it begins where the target ends or before."""
    batches = [] if begins is None else [one(stored(begins, [PLAIN] * (6 - begins)))]
    run = lane_of(*batches, position=position)
    run.source_start, run.source_end = 8, 20
    engine = Placed()

    asyncio.run(resolved(lambda resolver: resolver._decide(run), engine=engine))

    assert engine.placed == ([run] if is_held else [])
    assert (run.state is LaneState.DATA_GAP) is not is_held
