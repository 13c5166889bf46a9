"""The times of the records at positions of real logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from isthmus.groups.trees.times import RecordTime, RecordTimes
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.timestamps import record_timestamps
from isthmus.local import LocalCluster
from isthmus.model.naming import SourceTopic
from testing.records import topics
from testing.records.transactions import TransactionalProducer

pytestmark = pytest.mark.integration


def at(second: int) -> int:
    return topics.SEPTEMBER + 1000 * second


def test_the_end_of_a_transactional_log_is_as_old_as_its_last_record(
    east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """However many control records end it: a group that has read everything stands there, or at one of them."""
    name = topic("ends")
    topics.create(east, name)
    writers = [TransactionalProducer(east, f"{name}-{number}") for number in range(3)]
    for number, writer in enumerate(writers):
        writer.send(name, [topics.Given(None, b"v", [], at(100 * number + second)) for second in range(4)])
    for writer in writers:
        writer.end(commit=True)

    async def scenario() -> dict[int, int]:
        key = (name, 0)
        async with Client(east.cluster()) as client:
            logs = (await log_ranges(client, [key])).values
            assert logs[key].stable_end == 15
            return {
                position: (await record_timestamps(client, {key: position}, logs))[key]
                for position in (0, 5, *range(11, 16))
            }

    found = asyncio.run(scenario())

    assert found == {0: at(0), 5: at(101)} | dict.fromkeys(range(11, 16), at(203))


def test_records_behind_a_position_show_that_clocks_differ(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """Without being looked up themselves: what lies right behind it comes with it. The end is looked up anew."""
    name = topic("clocks")
    topics.create(east, name)
    for second in (0, 3_600, 10):
        topics.produce(east, name, [topics.Given(None, b"v", [], at(second))])
    key = (SourceTopic(name), 0)

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            times = RecordTimes(client)
            assert await times.of([(key, 3)]) == {(key, 3): RecordTime(at(10), 0, is_end=True)}
            first = {(key, 0): RecordTime(at(0), 3_590_000, is_end=False)}
            assert await times.of([(key, 0)]) == first
            await asyncio.to_thread(topics.produce, east, name, [topics.Given(None, b"v", [], at(20))])
            last = {(key, 3): RecordTime(at(20), 3_590_000, is_end=False)}
            assert await times.of([(key, 0), (key, 3)]) == first | last

    asyncio.run(scenario())
