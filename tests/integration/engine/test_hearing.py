"""How far a lane is behind is known while a limit holds it back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey
from isthmus.model.link import Limits
from isthmus.model.naming import TargetTopic
from testing.records import topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration


def test_the_source_is_heard_while_nothing_is_read(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], chance: random.Random
) -> None:
    """What comes to the source is counted though the reader is to wait for minutes before it asks again, and so is what
    comes in a transaction that stays open.
    """
    name = topic("slow")
    topics.create_both(east, west, name)
    topics.produce(east, name, topics.some(50, chance, value_bytes=2000))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with Mirror(east, west).running(name, engine={"limits": Limits(bytes_per_s=100)}) as running:
            await running.until(lambda reports: reports[key].position > 0)
            await asyncio.to_thread(topics.produce, east, name, topics.some(50, chance, value_bytes=2000))
            await running.until(lambda reports: reports[key].source_end == 100)
            # All of the first answer may be at the target by then, and nothing of another one.
            assert running.engine.lanes.reports()[0].position <= 50
            writing = topics.producer(east, transactional_id=name)
            await asyncio.to_thread(writing.init_transactions, 30)
            writing.begin_transaction()
            topics.send(writing, name, topics.some(3, chance))
            await asyncio.to_thread(topics.flush, writing)
            await running.until(lambda reports: reports[key].source_log_end == 103, term_s=30)
            assert running.engine.lanes.reports()[0].source_end == 100
            await asyncio.to_thread(writing.abort_transaction, 30)

    asyncio.run(scenario())
