"""Old records at a target that forgets its producers at once: what was abandoned on its way is waited for."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from isthmus.cluster.local import LocalCluster
from tests.integration.lane import oracle, topics
from tests.integration.lane.mirror import Mirror
from tests.integration.lane.trickle import trickling

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
EXPIRATION_MS = 1000


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LocalCluster]:
    """A broker that drops the state of a producer as soon as its last record is a second old."""
    properties = {
        "producer.id.expiration.ms": str(EXPIRATION_MS),
        "producer.id.expiration.check.interval.ms": "10",
    }
    with LocalCluster.start("forgetful", brokers=1, heap_mb=256, properties=properties) as cluster:
        yield cluster


def test_abandoned_appends_of_old_records(
    east: LocalCluster, forgetful: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Engines cut off while the broker is frozen leave appends on their way: none is doubled, none is lost."""
    name = topic("old")
    topics.create_both(east, forgetful, name, partitions=2)
    mirror = Mirror(east, forgetful)
    settings = {"settle_s": 0.5}
    broker = forgetful.broker(1)

    async def cut_off_while_frozen() -> None:
        async with mirror.running(name, engine=settings) as running:
            await running.until(lambda reports: all(report.records > 0 for report in reports.values()), look_s=0)
            broker.pause()
            threading.Timer(0.3 + chance.random(), broker.resume).start()
            await asyncio.sleep(chance.random() * 0.2)
            await running.engine.stop(drain_s=0.0)

    with trickling(east, name, chance, partitions=2):
        for _ in range(6):
            asyncio.run(cut_off_while_frozen())
    mirror.copy(name, engine=settings)

    assert oracle.assert_same(east, forgetful, name, partitions=2) > 0
