"""Two writers at once, which the leases never allow: what the brokers make of it where they can still judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from tests.faults.stream import Stream
from tests.faults.witness import until_all_advance
from tests.integration.lane import topics
from tests.integration.lane.mirror import Mirror

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
PARTITIONS: Final = 3


def test_two_engines_for_the_same_lanes(mirror3: Mirror, topic: TopicNamer) -> None:
    """On data whose producer state is live the log stays exact, however two writers of one identity meet."""
    name = topic("rivals")
    topics.create_both(mirror3.source, mirror3.target, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=2)
    stream = Stream(mirror3.source, {name: 0}, partitions=PARTITIONS, records_per_s=600.0)

    async def scenario() -> None:
        async with mirror3.running(name) as older, mirror3.running(name) as younger:
            assert older.engine.producer == younger.engine.producer
            with stream.flowing():
                for _ in range(5):
                    await asyncio.gather(*(until_all_advance(running, records=200) for running in (older, younger)))
                await older.engine.stop(drain_s=0.0)
                await until_all_advance(younger)
            await younger.until(stream.is_copied)
            for running in (older, younger):
                assert all(report.records > 0 for report in running.reports.values()), running.reports

    asyncio.run(scenario())

    stream.assert_mirrored(mirror3.target)
