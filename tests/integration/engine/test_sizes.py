"""Batches larger than the target takes are split; a single record that is too large waits for a larger limit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror, caught_up

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
LIMIT = 20_000


@pytest.mark.parametrize("known", [True, False], ids=["planned", "unplanned"])
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_large_batches_are_split(
    mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str, known: bool
) -> None:
    """The target's limit is kept, whether the plan knew of it or the brokers tell."""
    name = topic("split")
    topics.create(mirror.source, name)
    topics.create(mirror.target, name, max_message_bytes=LIMIT)
    given = topics.some(1500, chance, value_bytes=300)
    topics.produce(mirror.source, name, given, compression_type=codec, batch_num_messages=700)

    mirror.copy(name, batch_bytes_max=LIMIT if known else 1_048_588)

    assert oracle.assert_same(mirror.source, mirror.target, name) == 1500


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_small_batches_are_joined_less(mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str) -> None:
    """Small batches that together are too large for the target go in smaller groups."""
    name = topic("joined")
    topics.create(mirror.source, name)
    topics.create(mirror.target, name, max_message_bytes=LIMIT)
    given = topics.some(1500, chance, value_bytes=1500)
    topics.produce(mirror.source, name, given, compression_type=codec, batch_num_messages=1)

    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name) == 1500


def test_large_aborted_batches_are_split(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Splitting leaves aborted records aborted."""
    name = topic("aborted")
    topics.create(mirror.source, name)
    topics.create(mirror.target, name, max_message_bytes=LIMIT)
    writing = TransactionalProducer(mirror.source, name, batch_num_messages=500)
    for commit in (False, True, False):
        writing.send(name, topics.some(400, chance, value_bytes=300))
        writing.end(commit=commit)

    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name)


@pytest.mark.parametrize("aborted", [False, True], ids=["plain", "aborted"])
def test_too_large_a_record_blocks_its_lane_only(
    mirror: Mirror, topic: TopicNamer, chance: random.Random, aborted: bool
) -> None:
    """The lane names the limit to raise, other lanes go on, and it heals when the limit is raised."""
    name = topic("record")
    topics.create(mirror.source, name, partitions=2)
    topics.create(mirror.target, name, partitions=2, max_message_bytes=LIMIT)
    large = topics.Given(b"k", chance.randbytes(2 * LIMIT), [], topics.SEPTEMBER)
    given = [*topics.some(5, chance), large, *topics.some(5, chance)]
    if aborted:
        writing = TransactionalProducer(mirror.source, name)
        writing.send(name, given)
        writing.end(commit=False)
    else:
        topics.produce(mirror.source, name, given)
    topics.produce(mirror.source, name, topics.some(20, chance), partition=1)
    blocked, other = LaneKey(TargetTopic(name), 0), LaneKey(TargetTopic(name), 1)

    async def scenario() -> None:
        async with mirror.running(name, batch_bytes_max=LIMIT) as running:
            reports = await running.until(
                lambda reports: reports[blocked].state is LaneState.BLOCKED and reports[other].lag_records == 0
            )
            problem = reports[blocked].problem
            assert problem is not None
            assert "max.message.bytes" in problem.hint
            assert reports[blocked].position == 5
            topics.configure(mirror.target, name, max_message_bytes=10 * LIMIT)
            await running.until(caught_up)

    asyncio.run(scenario())

    oracle.assert_same(mirror.source, mirror.target, name, partitions=2)
