"""Fresh records travel several requests deep: a failure takes those behind it with it, and nothing else."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

RECORDS = 5000
VALUE_BYTES = 10_000
LIMIT = 60_000


def fresh(mirror: Mirror, name: str, chance: random.Random) -> str:
    """A topic on both sides; the source holds records of this minute in many batches."""
    topics.create_both(mirror.source, mirror.target, name)
    produce(mirror, name, chance)
    return name


def produce(mirror: Mirror, name: str, chance: random.Random) -> None:
    """Write records of this minute in many batches."""
    now_ms = int(time.time() * 1000)
    given = [Given(b"%d" % n, chance.randbytes(VALUE_BYTES), [], now_ms) for n in range(RECORDS)]
    topics.produce(mirror.source, name, given, batch_size=100_000)


def test_ended_with_requests_in_flight(mirror: Mirror, topic: Callable[[str], str], chance: random.Random) -> None:
    """A lease that ends in the middle sends nothing more, hears what is owed, and leaves nothing to wait for."""
    name = fresh(mirror, topic("ended"), chance)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> int:
        async with mirror.running(name) as running:
            await running.until(lambda reports: reports[key].position > 0, look_s=0)
            await running.engine.stop(drain_s=60.0)
            assert running.engine.lanes.is_clean
            return running.reports[key].position

    stopped_at = asyncio.run(scenario())

    assert stopped_at < RECORDS, "everything was copied before the end"
    assert oracle.ends(mirror.target.admin_bootstrap_servers, name).high == stopped_at
    mirror.copy(name)
    assert oracle.assert_same(mirror.source, mirror.target, name) == RECORDS


def test_limit_lowered_with_requests_in_flight(
    mirror: Mirror, topic: Callable[[str], str], chance: random.Random
) -> None:
    """Batches that have become too large while others follow them are split; order and offsets stay."""
    name = fresh(mirror, topic("lowered"), chance)
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name) as running:
            await running.until(lambda reports: reports[key].position > 0, look_s=0)
            await asyncio.to_thread(topics.configure, mirror.target, name, max_message_bytes=LIMIT)
            # All that was there may be copied by then: there is more.
            await asyncio.to_thread(produce, mirror, name, chance)
            await running.until_copied()

    asyncio.run(scenario())

    assert oracle.assert_same(mirror.source, mirror.target, name) == 2 * RECORDS
    given, written = (len(oracle.batches(each, name)) for each in (mirror.source, mirror.target))
    assert written > given, "everything was copied before the limit was lowered"
