"""When the resolver looks, and when it rests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, Literal

import pytest

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Routes
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.resolver import Resolver
from isthmus.engine.roster import Roster
from isthmus.engine.run import LaneRun, Look
from isthmus.engine.source import Bounds
from isthmus.engine.state.writer import LogLook, Writer
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor

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
        self.lanes = Roster()

    def may_write(self) -> bool:
        return self._is_allowed

    def inherit(self, run: LaneRun) -> None:
        """Nothing was left."""

    def place(self, run: LaneRun) -> None:
        self.placed.append(run)


def test_it_ends_even_if_it_is_woken_at_that_moment() -> None:
    """Being cancelled counts, whatever else happens: an engine that stops waits for it."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            routes = Routes[Any](client)
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


def test_a_lane_that_the_ledger_keeps_waiting_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two mapped lanes that the same brokers lead one is known here already, a third one has the same offsets."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            routes, engine = Routes[Any](client), Placed()
            resolver = Resolver(engine, routes, routes, settle_s=0.0)
            lanes = [replace(LANE, partition=number, is_mapped=number > 0) for number in range(3)]
            same, known, new = (LaneRun(lane, Writer(abandoned=False, is_mapped=lane.is_mapped)) for lane in lanes)
            known.transit = Transit(Cursor(0, 0, 0))
            asked = iter((LogLook(0, 0, None), Bounds(0, 0)))

            async def ask(keys: Iterable[PartitionKey], _: object) -> dict[PartitionKey, object]:
                answer = next(asked)
                return dict.fromkeys(keys, answer)

            async def check(runs: Sequence[LaneRun]) -> list[LaneRun]:
                return list(runs)

            async def find(looks: Sequence[Look], _: object) -> dict[LaneRun, None]:
                if any(look.run is new for look in looks):
                    await asyncio.Event().wait()
                return {look.run: None for look in looks}

            monkeypatch.setattr(resolver, "_target", SimpleNamespace(ask=ask))
            monkeypatch.setattr(resolver, "_source", SimpleNamespace(ask=ask))
            monkeypatch.setattr(resolver._ends, "looked", lambda *_: None)
            monkeypatch.setattr(resolver._ends, "check", check)
            monkeypatch.setattr(resolver._ends, "decided", lambda _: None)
            monkeypatch.setattr(resolver._places, "find", find)
            looking = asyncio.create_task(resolver._look_at([same, known, new]))
            for _ in range(20):
                await asyncio.sleep(0)
            looking.cancel()
            assert set(engine.placed) == {same, known}

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
            routes = Routes[Any](client)
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
