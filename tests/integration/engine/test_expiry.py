"""A target that forgets its producers and ends their transactions soon."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.records.trickle import trickling
from testing.runs.mapping import Maps
from testing.runs.mirror import Mirror, all_are

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
EXPIRATION_MS = 1000


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LocalCluster]:
    """A broker that drops the state of a producer whose last record is a second old, and ends its transactions soon."""
    properties = {
        "producer.id.expiration.ms": str(EXPIRATION_MS),
        "producer.id.expiration.check.interval.ms": "10",
        "transaction.max.timeout.ms": "6000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with LocalCluster.start("forgetful", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        yield cluster


def test_abandoned_appends_of_old_records(
    east: LocalCluster, forgetful: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Engines cut off while the broker is frozen leave appends on their way: none is doubled, none is lost."""
    name = topic("old")
    topics.create_both(east, forgetful, name, partitions=2)
    mirror = Mirror(east, forgetful)
    settings = {"settle_s": 1.0, "expiration_ms": EXPIRATION_MS}
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


def test_transaction_ended_by_its_coordinator(
    east: LocalCluster, forgetful: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """An aborted transaction nobody goes on with in time leaves a control record that is found, not passed over."""
    name = topic("ended")
    topics.create_both(east, forgetful, name)
    first, second = (TransactionalProducer(east, f"{name}-{n}") for n in range(2))
    first.send(name, topics.some(5, chance))
    second.send(name, topics.some(5, chance))
    first.end(commit=False)
    mirror = Mirror(east, forgetful)

    settings = {"expiration_ms": EXPIRATION_MS}
    assert [report.position for report in mirror.copy(name, engine=settings).values()] == [5]
    # In good order or not: a successor that was told so finds it too.
    deadline = time.monotonic() + TERM_S
    while oracle.ends(forgetful.bootstrap_servers, name) != oracle.Ends(0, 6, 6):
        assert time.monotonic() < deadline, "the coordinator does not end the transaction"
        time.sleep(0.2)
    second.end(commit=True)
    for abandoned in (False, True):
        settings = {"abandoned": abandoned, "expiration_ms": EXPIRATION_MS}
        (report,) = mirror.copy(name, engine=settings, until=all_are(LaneState.FOREIGN_WRITE)).values()
        assert report.problem is not None
        assert "ended one that no task continued in time" in report.problem.message


def test_a_mapped_lane_of_which_the_target_deleted_what_was_not_written_down(
    east: LocalCluster, forgetful: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Nobody remembers how many records it had appended: they are not copied a second time. Where the owner before has
    said that it sent no more than it had written down, the lane goes on.
    """
    name, mirror, maps = topic("deleted"), Mirror(east, forgetful), Maps()
    topics.create_both(east, forgetful, name)
    settings = {"maps": maps, "expiration_ms": EXPIRATION_MS}

    async def copied(*, is_told: bool) -> None:
        async with mirror.running(name, engine=settings, is_mapped=True) as running:
            await running.until_copied()
        if is_told:
            maps.note(running.engine)

    def deleted(end: int) -> None:
        topics.produce(forgetful, name, topics.some(10, chance))
        topics.delete_records(forgetful, name, end)

    topics.produce(east, name, topics.some(100, chance))
    asyncio.run(copied(is_told=True))
    deleted(105)
    topics.produce(east, name, topics.some(20, chance))
    asyncio.run(copied(is_told=False))
    assert oracle.ends(forgetful.admin_bootstrap_servers, name).high == 130
    deleted(135)

    ended = mirror.copy(name, until=all_are(LaneState.FAILED), engine=settings, is_mapped=True)

    (report,) = ended.values()
    assert report.problem is not None
    assert "[110, 135)" in report.problem.message
    assert oracle.ends(forgetful.admin_bootstrap_servers, name).high == 140
