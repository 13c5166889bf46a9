"""What goes wrong with one topic: its lanes name the cause and what to do, the others go on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
)
from kafka.protocol.admin import ListTransactionsRequest

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.kafka.findings import Level
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.link import Limits
from isthmus.model.naming import TargetTopic
from testing.brokers.acls import denied, deny, permit
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror
from testing.runs.running import configuration_of, link_of
from testing.runs.witness import assert_told, until_all_advance, until_told
from testing.verbs import examine
from tests.faults.stream import Stream

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
RIGHTS: Final = {"source": AclOperation.READ, "target": AclOperation.WRITE}


@pytest.mark.parametrize("side", ["source", "target"])
def test_right_taken_away(east: LocalCluster, secured: LocalCluster, topic: TopicNamer, side: str) -> None:
    """A topic we may no longer use says so, as doctor does, and the other goes on; granted again, it goes on too."""
    refused, other = topic("refused"), topic("other")
    if side == "source":
        mirror, ends = Mirror(secured, east, source_login=secured.cluster()), (secured.cluster(), east.cluster())
    else:
        mirror, ends = Mirror(east, secured, target_login=secured.cluster()), (east.cluster(), secured.cluster())
    for name in (refused, other):
        topics.create_both(mirror.source, mirror.target, name)
    stream = Stream(mirror.source, {refused: 0, other: 0})
    key, beside = LaneKey(TargetTopic(refused), 0), [LaneKey(TargetTopic(other), 0)]

    async def scenario() -> None:
        async with mirror.running(refused, other) as running:
            with stream.flowing():
                await until_all_advance(running)
                with denied(secured, ResourceType.TOPIC, refused, RIGHTS[side]):
                    right = f"{RIGHTS[side].name} on topic {refused}"
                    report = await until_told(running, key, LaneState.NOT_AUTHORIZED, f"{right} is missing", side)
                    assert report.problem is not None
                    assert f"Grant {right} to the principal of secured" in report.problem.hint
                    found = await examine(configuration_of(link_of(*ends, refused)))
                    (error,) = [each for each in found if each.level is Level.ERROR and refused in each.message]
                    assert f"Grant {right} to the principal of secured" in error.hint
                    await until_all_advance(running, beside)
                    assert running.reports[key].state is LaneState.NOT_AUTHORIZED
                await until_all_advance(running)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(mirror.target)


def test_right_missing_at_the_target(
    east: LocalCluster, secured: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A lane that may not delete what fills the target before the source's first record says which right it lacks; with
    it, it goes on by itself.
    """
    name = topic("lacking")
    mirror = Mirror(east, secured)
    topics.create_both(east, secured, name)
    topics.produce(east, name, topics.some(50, chance))
    topics.delete_records(east, name, 30)
    key, right = LaneKey(TargetTopic(name), 0), f"DELETE on topic {name}"

    async def scenario() -> None:
        async with mirror.running(name) as running:
            report = await until_told(running, key, LaneState.NOT_AUTHORIZED, f"{right} is missing")
            assert report.problem is not None
            assert f"Grant {right} to the principal of secured" in report.problem.hint
            await asyncio.to_thread(permit, secured, ResourceType.TOPIC, name, AclOperation.DELETE)
            await running.until_copied()

    deny(secured, ResourceType.TOPIC, name, AclOperation.DELETE)
    asyncio.run(scenario())

    assert oracle.assert_same(east, secured, name) == 20


def test_target_topic_deleted(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A target topic that goes away ends its lanes; nothing is created in its place, and the others go on."""
    gone, other = topic("gone"), topic("other")
    for name in (gone, other):
        topics.create_both(east, west, name)
    stream = Stream(east, {gone: 0, other: 0})

    async def scenario() -> None:
        async with Mirror(east, west).running(gone, other) as running:
            with stream.flowing():
                await until_all_advance(running)
                topics.delete(west, gone)
                await until_told(running, LaneKey(TargetTopic(gone), 0), LaneState.TOPIC_RECREATED, "target", "deleted")
                assert gone not in _names(west)
                await until_all_advance(running, [LaneKey(TargetTopic(other), 0)], may_end=True)

    asyncio.run(scenario())


def test_source_topic_recreated(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Another source topic under the same name is not copied behind the records of the first."""
    recreated = topic("recreated")
    topics.create_both(east, west, recreated)
    first = topics.some(50, chance)
    topics.produce(east, recreated, first)

    async def scenario() -> None:
        async with Mirror(east, west).running(recreated) as running:
            key = LaneKey(TargetTopic(recreated), 0)
            await running.until(lambda reports: reports[key].position == len(first))
            topics.delete(east, recreated)
            topics.create(east, recreated)
            topics.produce(east, recreated, topics.some(80, chance))
            await until_told(running, key, LaneState.TOPIC_RECREATED, "source")

    asyncio.run(scenario())

    assert oracle.ends(west.admin_bootstrap_servers, recreated).high == len(first)


@pytest.mark.parametrize("continues", [False, True], ids=["stop", "continue"])
def test_records_deleted_while_they_are_copied(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random, continues: bool
) -> None:
    """Records that the source deletes before they are copied are a gap with exact bounds, never a silent skip."""
    name = topic("deleted")
    key = LaneKey(TargetTopic(name), 0)
    topics.create_both(east, west, name)
    for _ in range(40):
        topics.produce(east, name, topics.some(50, chance, value_bytes=2000))
    begin = 1500
    # Slow enough to be overtaken for certain: the records are 4 MB.
    limits = Limits(bytes_per_s=200_000, bytes_in_flight=100_000)

    async def scenario() -> Gap | None:
        async with Mirror(east, west).running(
            name, engine={"limits": limits}, continues_after_gap=continues
        ) as running:
            await running.until(lambda reports: reports[key].position > 0)
            topics.delete_records(east, name, begin)
            if continues:
                await running.until(lambda reports: bool(reports[key].gaps))
                (gap,) = running.reports[key].gaps
                await running.until(lambda reports: reports[key].position == 2000)
                return gap
            report = await until_told(running, key, LaneState.DATA_GAP, f"{begin})")
            assert_told(report.problem, f"[{report.position}, {begin})")
            return None

    gap = asyncio.run(scenario())

    kept = oracle.records(west.admin_bootstrap_servers, name)[0]
    wanted = oracle.records(east.admin_bootstrap_servers, name)[0]
    assert [record.offset for record in wanted] == list(range(begin, 2000))
    if gap is None:
        assert [record.offset for record in kept] == list(range(len(kept)))
        assert len(kept) < begin
    else:
        assert gap.offset_end == begin
        assert [record.offset for record in kept] == [*range(gap.offset_begin), *range(begin, 2000)]
        oracle.assert_equal(kept[gap.offset_begin :], wanted, name)


@pytest.mark.parametrize("size", [5, 500])
def test_corrupt_batch(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random, size: int
) -> None:
    """A batch the disk has spoilt is not copied and not skipped; whole again, the lane goes on by itself.

    A tiny one is found when it comes, one that passes as the bytes it is by the target, which refuses it.
    """
    name, beside = topic("spoilt"), topic("other")
    for each in (name, beside):
        topics.create_both(east, west, each)
    before, after = [fresh(100, chance) for _ in range(12)], [fresh(100, chance) for _ in range(12)]
    for records in before:
        topics.produce(east, name, records)
    (file,) = _segments(east, name)
    spoilt_at, begin = file.stat().st_size + 100, 1200
    for records in (fresh(size, chance), *after):
        topics.produce(east, name, records)
    stream = Stream(east, {beside: 0})
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        _flip(file, spoilt_at)
        async with Mirror(east, west).running(name, beside) as running:
            with stream.flowing():
                await running.until(lambda reports: reports[key].position == begin)
                await until_told(running, key, LaneState.BLOCKED, "corrupt", f"offset {begin}")
                await until_all_advance(running, [LaneKey(TargetTopic(beside), 0)])
                assert running.reports[key].position == begin
                _flip(file, spoilt_at)
                await running.until(lambda reports: reports[key].position == begin + size + 1200)

    asyncio.run(scenario())

    oracle.assert_same(east, west, name)


def test_corrupt_batch_of_an_aborted_transaction(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """It is found before a transaction is begun for it at the target; whole again, the lane goes on by itself."""
    name = topic("spoilt")
    topics.create_both(east, west, name)
    topics.produce(east, name, fresh(100, chance))
    (file,) = _segments(east, name)
    spoilt_at = file.stat().st_size + 100
    aborting = TransactionalProducer(east, name)
    aborting.send(name, fresh(100, chance))
    aborting.end(commit=False)
    topics.produce(east, name, fresh(100, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        _flip(file, spoilt_at)
        async with Mirror(east, west).running(name) as running:
            await until_told(running, key, LaneState.BLOCKED, "corrupt", "offset 100")
            async with Client(west.admin_cluster()) as client:
                known = await client.any(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
            assert not [each for each in known.transaction_states if name in each.transactional_id]
            _flip(file, spoilt_at)
            await running.until(lambda reports: reports[key].position == 301)

    asyncio.run(scenario())

    oracle.assert_same(east, west, name)


def fresh(count: int, chance: random.Random) -> list[Given]:
    """Records of now: several requests of them are in flight at once."""
    return [record._replace(timestamp=int(time.time() * 1000)) for record in topics.some(count, chance)]


def _segments(cluster: LocalCluster, name: str) -> list[Path]:
    return sorted(cluster.broker(1).folder.rglob(f"{name}-0/*.log"))


def _flip(file: Path, at: int) -> None:
    with file.open("r+b") as log:
        log.seek(at)
        (byte,) = log.read(1)
        log.seek(at)
        log.write(bytes([byte ^ 0x40]))


def _names(cluster: LocalCluster) -> set[str]:
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    return set(admin.list_topics(timeout=TERM_S).topics)
