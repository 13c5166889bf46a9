"""When the resolver looks, and when it rests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Final, Literal

from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.resolver import Resolver
from isthmus.lane.routes import Leader, Routes
from isthmus.lane.run import LaneRun, TailCheck
from isthmus.lane.writer import Look, Writer
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark, LaneState
from isthmus.wire.client import Client

LANE: Final = Lane(
    source_topic="orders",
    source_topic_id=uuid.uuid4(),
    target_topic="orders",
    target_topic_id=uuid.uuid4(),
    partition=0,
)


class Placed:
    """An engine that lets lanes be placed, or not yet."""

    producer = ProducerIdentity(producer_id=1, marker_producer_id=2)

    def __init__(self, *, is_allowed: bool = True) -> None:
        self._is_allowed = is_allowed

    def may_write(self) -> bool:
        return self._is_allowed

    def is_alone(self, run: LaneRun) -> bool:
        return True

    def place(self, run: LaneRun) -> None:
        raise AssertionError(f"{run.lane.key} is placed")


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
    assert resolver._looked(run, Look(end, end, None))


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
