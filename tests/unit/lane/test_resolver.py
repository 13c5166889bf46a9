"""When the resolver looks, and when it rests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Final, Literal

from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.resolver import Resolver
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun
from isthmus.lane.writer import Writer
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.wire.client import Client

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

    def inherit(self, run: LaneRun) -> None:
        """Nothing was left."""

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
