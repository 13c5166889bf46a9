"""What goes wrong with one topic: its lanes name the cause and what to do, the others go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.cluster.local import LocalCluster
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.link import Limits
from tests.faults.stream import Stream
from tests.faults.witness import assert_told, until_all_advance, until_told
from tests.integration.lane import oracle, topics
from tests.integration.lane.mirror import Mirror

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
TERM_S: Final = 30.0
RIGHTS: Final = {"source": AclOperation.READ, "target": AclOperation.WRITE}


@pytest.mark.parametrize("side", ["source", "target"])
def test_right_taken_away(east: LocalCluster, secured: LocalCluster, topic: TopicNamer, side: str) -> None:
    """A topic we may no longer use says so, the other goes on; granted again, it goes on by itself."""
    denied, other = topic("denied"), topic("other")
    if side == "source":
        mirror = Mirror(secured, east, source_login=secured.cluster())
    else:
        mirror = Mirror(east, secured, target_login=secured.cluster())
    for name in (denied, other):
        topics.create_both(mirror.source, mirror.target, name)
    stream = Stream(mirror.source, {denied: 0, other: 0})
    key, beside = LaneKey(denied, 0), [LaneKey(other, 0)]

    async def scenario() -> None:
        async with mirror.running(denied, other) as running:
            with stream.flowing():
                await until_all_advance(running)
                with _denied(secured, denied, RIGHTS[side]):
                    await until_told(running, key, LaneState.NOT_AUTHORIZED, denied, side)
                    await until_all_advance(running, beside)
                    assert running.reports[key].state is LaneState.NOT_AUTHORIZED
                await until_all_advance(running)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(mirror.target)


@contextmanager
def _denied(cluster: LocalCluster, name: str, operation: AclOperation) -> Iterator[None]:
    """Take a right on a topic away from Isthmus for a while."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    about = (ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:isthmus", "*", operation)
    rule = AclBinding(*about, AclPermissionType.DENY)
    admin.create_acls([rule])[rule].result(TERM_S)
    try:
        yield
    finally:
        same = AclBindingFilter(*about, AclPermissionType.DENY)
        assert len(admin.delete_acls([same])[same].result(TERM_S)) == 1


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
                await until_told(running, LaneKey(gone, 0), LaneState.TOPIC_RECREATED, "target", "deleted")
                assert gone not in _names(west)
                await until_all_advance(running, [LaneKey(other, 0)], may_end=True)

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
            key = LaneKey(recreated, 0)
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
    key = LaneKey(name, 0)
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
                await running.until(lambda reports: bool(reports[key].gaps), term_s=60.0)
                (gap,) = running.reports[key].gaps
                await running.until(lambda reports: reports[key].position == 2000, term_s=60.0)
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


def test_corrupt_batch(east: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random) -> None:
    """A batch the disk has spoilt is not copied and not skipped; whole again, the lane goes on by itself."""
    name, beside = topic("spoilt"), topic("other")
    for each in (name, beside):
        topics.create_both(east, west, each)
    before = topics.some(20, chance)
    topics.produce(east, name, before)
    (file,) = _segments(east, name)
    spoilt_at = file.stat().st_size + 100
    topics.produce(east, name, topics.some(50, chance))
    stream = Stream(east, {beside: 0})
    key = LaneKey(name, 0)

    async def scenario() -> None:
        _flip(file, spoilt_at)
        async with Mirror(east, west).running(name, beside) as running:
            with stream.flowing():
                await running.until(lambda reports: reports[key].position == len(before))
                await until_told(running, key, LaneState.BLOCKED, "corrupt", f"offset {len(before)}")
                await until_all_advance(running, [LaneKey(beside, 0)])
                assert running.reports[key].position == len(before)
                _flip(file, spoilt_at)
                await running.until(lambda reports: reports[key].position == 70)

    asyncio.run(scenario())

    oracle.assert_same(east, west, name)


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
