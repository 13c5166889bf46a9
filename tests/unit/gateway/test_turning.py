"""A gateway that takes no requests for a while, and one that turns to another cluster."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.frames.duties import Duties
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.ports import BrokerPorts
from isthmus.kafka import clock
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from tests.unit.gateway.passages import HOST, Broker, answered, found, is_ended, place, request, run, until

SIZE = len(request(1, 100_000))


def test_a_fence_is_at_the_end_of_a_request() -> None:
    """The request that is passing passes and is answered, the ones behind it wait, whoever connects waits as well; with
    the fence down all of them are answered, in order.
    """

    async def story() -> None:
        async with place() as here:
            reader, writer = await here.connect()
            first, second = request(1, 100_000), request(2, 100_000)
            writer.write(first[:50_000])
            (passage,) = await found(here)
            await until(lambda: here.broker.asked_bytes or passage.owed)
            here.gateway.fence(is_up=True)
            assert passage.owed

            writer.write(first[50_000:] + second + request(3))
            assert await answered(reader) == 1
            await until(lambda: not passage.owed)
            later, other = await here.connect()
            other.write(request(4))
            await asyncio.sleep(0.1)
            assert here.broker.asked_bytes == SIZE
            here.gateway.fence(is_up=False)

            assert [await answered(reader) for _ in range(2)] == [2, 3]
            assert await answered(later) == 4

    run(story())


def test_who_waits_is_not_late() -> None:
    """However long a fence is up: a client that connects meanwhile is not held to have said nothing."""

    async def story() -> None:
        async with place(replace(DEFAULTS, first_frame_s=0.2)) as here:
            here.gateway.fence(is_up=True)
            reader, writer = await here.connect()
            await asyncio.sleep(1.5)
            here.gateway.fence(is_up=False)
            writer.write(request(1))
            assert await answered(reader) == 1

    run(story())


def test_one_that_stood_still_lets_nothing_pass() -> None:
    """What came while the process stood still waits until it is known that it may pass, and of a request that had
    passed in part nothing more does.
    """

    async def story() -> None:
        async with place() as here:
            halved, half = await here.connect()
            half.write(request(1, 100_000)[:50_000])
            (passage,) = await found(here)
            await until(lambda: bool(passage.owed))
            reader, writer = await here.connect()
            writer.write(request(2))
            assert await answered(reader) == 2
            asked_before = here.broker.asked_bytes
            here.gateway.asleep_max_s = 1.0
            # No event is served meanwhile, and clients are not seen to have written.
            half.write(request(1, 100_000)[50_000:])
            writer.write(request(3))
            time.sleep(1.1)
            assert await is_ended(halved)
            assert here.gateway.is_in_doubt
            await asyncio.sleep(0.1)
            assert here.broker.asked_bytes == asked_before

            here.gateway.fence(is_up=False)
            assert here.gateway.is_fenced
            here.gateway.fence(is_up=False, why="doubt")
            assert await answered(reader) == 3
            assert passage not in here.gateway.passages

    run(story())


def test_one_whose_machine_was_suspended_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's monotonic clock stood still meanwhile as well."""

    async def story() -> None:
        async with place() as here:
            here.gateway.asleep_max_s = 5.0
            slept = SimpleNamespace(clock_gettime=lambda which: time.clock_gettime(which) + 60.0)
            monkeypatch.setattr(clock, "time", slept)
            reader, writer = await here.connect()
            writer.write(request(1))
            await until(lambda: here.gateway.is_in_doubt)
            assert here.broker.asked_bytes == 0
            here.gateway.fence(is_up=False, why="doubt")
            assert await answered(reader) == 1

    run(story())


def test_clients_are_left_and_come_to_the_other_cluster() -> None:
    """Answers that have come reach the client, its connection ends, and whoever waited is led to the other cluster."""

    async def story() -> None:
        async with place() as here:
            reader, writer = await here.connect()
            writer.write(request(1))
            assert await answered(reader) == 1
            here.gateway.fence(is_up=True)
            waiting, other = await here.connect()
            other.write(request(2))
            broker = Broker(answer_bytes=40)
            broker.lets.set()
            behind = await asyncio.start_server(broker.serve, HOST, 0)
            async with Client(Cluster(alias="west", bootstrap_servers=(f"{HOST}:1",))) as client:
                places = BrokerPorts(host="gateway.example", port=19092, first_node=7, size=1)
                there = {7: (HOST, behind.sockets[0].getsockname()[1])}
                asked_before = here.broker.asked_bytes
                owing = cast(Duties, SimpleNamespace(links=()))
                here.gateway.turn(client, places, there, Serving(tag=5, stay=1), owing)

                assert await is_ended(reader)
                assert await answered(waiting) == 2
                later, last = await here.connect()
                last.write(request(3))
                assert await answered(later) == 3
                assert here.broker.asked_bytes == asked_before
                tags = [each.conversation.serving.tag for each in here.gateway.passages]
                assert tags.count(5) == 2
                assert [each.conversation.duties for each in here.gateway.passages].count(owing) == 2
                await here.gateway.hold_nothing()
            behind.close()

    run(story())
