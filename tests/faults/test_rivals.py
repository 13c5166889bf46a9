"""Two writers at once, which the leases never allow: what the brokers make of it where they can still judge. And a
writer whose time is over while its requests are on their way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.engine.engine import Engine
from isthmus.kafka.connect.connection import Connection
from isthmus.local import LocalCluster
from testing.records import oracle, topics
from testing.runs.mirror import Mirror, caught_up
from testing.runs.witness import until_all_advance, until_one_advances
from tests.faults.stream import Stream

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
PARTITIONS: Final = 3
LANES: Final = 12


def test_two_engines_for_the_same_lanes(mirror3: Mirror, topic: TopicNamer) -> None:
    """On data whose producer state is live the log stays exact, however two writers of one identity meet."""
    name = topic("rivals")
    topics.create_both(mirror3.source, mirror3.target, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=2)
    stream = Stream(mirror3.source, {name: 0}, partitions=PARTITIONS, records_per_s=600.0)

    async def scenario() -> None:
        async with mirror3.running(name) as older:
            with stream.flowing():
                await until_all_advance(older, records=200)
            async with mirror3.running(name) as younger:
                assert older.engine.producer == younger.engine.producer
                for _ in range(5):
                    # Who was refused finds its place once the log rests; then both write at the same offset again.
                    await asyncio.gather(*(running.until(stream.is_copied) for running in (older, younger)))
                    with stream.flowing():
                        await until_one_advances(older, younger, records=200)
                with stream.flowing():
                    await older.engine.stop(drain_s=0.0)
                    await until_all_advance(younger)
                await younger.until(stream.is_copied)
                for running in (older, younger):
                    assert all(report.records > 0 for report in running.reports.values()), running.reports

    asyncio.run(scenario())

    stream.assert_mirrored(mirror3.target)


def busy(engine: Engine) -> list[Connection]:
    """The connections over which a request is unanswered."""
    flying = [appender._flying.items() for appender in engine._appenders.values()]
    return [connection for each in flying for connection, flights in each if flights]


def test_time_is_over_while_requests_are_on_their_way(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A broker that could not read them meanwhile gets none of them afterwards; allowed again, the engine goes on."""
    name = topic("revoked")
    topics.create_both(east, west, name, partitions=LANES)

    def produce(value_bytes: int) -> None:
        writing = topics.producer(east)
        for partition in range(LANES):
            topics.send(writing, name, topics.some(2, chance, value_bytes=value_bytes), partition=partition)
        topics.flush(writing)

    async def scenario() -> None:
        async with Mirror(east, west).running(name) as running:
            produce(10)
            await running.until(caught_up)
            west.broker(1).pause()
            try:
                # A request of so much does not fit into what the kernel keeps for a broker, so none is complete there.
                produce(900_000)
                await running.until(lambda _: bool(busy(running.engine)))
                connections = busy(running.engine)
                running.engine.write_until(0.0)
                assert all(connection.closed for connection in connections)
            finally:
                west.broker(1).resume()
            # What was sent later is there: so would be what was sent before.
            topics.create(west, topic("later"))
            ends = [oracle.ends(west.admin_bootstrap_servers, name, partition).high for partition in range(LANES)]
            assert ends == [2] * LANES
            running.engine.write_until(None)
            await running.until_copied()

    asyncio.run(scenario())

    oracle.assert_same(east, west, name, partitions=LANES)
