"""A follower that has diverged stays as it is, and its source's records go on behind its end with mapped offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ClusterError, PlanRefused
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MapDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Deletion
from isthmus.local import LocalCluster
from isthmus.memory.links import recollect
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.lane import LaneState
from isthmus.model.links.recovery import Recovery, RecoveryStage, RecoveryWay, quarantine_of
from isthmus.model.offsets import Cursor
from isthmus.model.text.plain import plain
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import topics
from testing.records.transactions import TransactionalProducer
from testing.runs.recovering import (
    FOREIGN,
    Interrupted,
    _are_at,
    caught_up,
    interrupted_at,
    link_between,
    log_of,
    lost,
    overtaken,
    told,
    topic_id,
)
from testing.runs.running import ends, running
from testing.verbs import LinkRecoverer

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def written(cluster: LocalCluster, name: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None, int]]:
    """What an independent consumer reads of a partition, without offsets."""
    return [told(each) for each in log_of(cluster, name, partition)]


def carrying(configuration: Configuration, group: str) -> Configuration:
    """The link carries a group as links do that keep offsets."""
    groups = GroupSettings(include=(GroupPattern.parse(group),))
    return replace(configuration, links=(replace(configuration.links[0], groups=groups),))


def test_a_follower_goes_on_behind_what_others_wrote(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """While the link runs, and ended at any step: the topic keeps its id and all that it held, the source's records
    come behind it once each, over another run too; groups go by the map and the verdict names what is foreign. Built
    anew later it is the source's copy again, with its groups at the same records.
    """
    link, name, group = topic("link"), topic("orders"), topic("group")
    topics.create(east, name, partitions=2)
    topics.produce(east, name, records(20))
    topics.produce(east, name, records(7), partition=1)
    only = carrying(link_between(east, west, link, name), group)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, topics=[name], quiet_s=0.3)
    mapped = partial(recoverer, way=RecoveryWay.MAPPED, sets_aside=True)

    async def parting() -> tuple[Recovery, str, int]:
        async with running(only, spark) as run:
            await run.until(lambda: _are_at(west, name, [20, 7]))
            before = await topic_id(west, name)
            await asyncio.to_thread(topics.produce, west, name, FOREIGN)
            writing = TransactionalProducer(east, name)
            for begin, commit in ((1000, False), (20, True)):
                await asyncio.to_thread(writing.send, name, records(5, begin=begin))
                await asyncio.to_thread(partial(writing.end, commit=commit))
            await run.until(lambda: run.state_of(name) is LaneState.FOREIGN_WRITE)
            foreseen = await mapped().recover(dry_run=True)
            assert [p.shared for p in foreseen.topics[0].partitions] == [20, 7]
            for step in range(30):
                try:
                    found = await mapped(on_step=interrupted_at(step, [])).recover()
                except Interrupted:
                    continue
                break
            await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            await asyncio.to_thread(topics.produce, east, name, records(3, begin=25))
            await run.until(lambda: _holds(west, name, records(28)))
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 27}})
            place = await _place(west, name, b"21")
            await asyncio.to_thread(consumers.await_position, west, group, (name, 0), place)
            assert await topic_id(west, name) == before
            return found, before, place

    found, before, place = asyncio.run(parting())
    (one,) = found.topics
    assert (one.stage, one.way) == (RecoveryStage.DONE, RecoveryWay.MAPPED)
    tail = written(west, name)[20:]
    assert tail[: len(FOREIGN)] == [(each.key, each.value, each.timestamp) for each in FOREIGN]
    assert one.quarantined == len(log_of(west, quarantine_of(name))) >= len(FOREIGN)
    assert log_of(west, name)[:20] == log_of(east, name)[:20]
    assert log_of(west, name, 1) == log_of(east, name, 1)

    # The declaration outlives the run. A repeated command finds all done, and another without a way is not guessed.
    topics.produce(east, name, records(2, begin=28))
    topics.produce(east, name, records(2, begin=7), partition=1)
    asyncio.run(caught_up(only, spark))
    assert written(west, name)[-10:] == written(east, name)[-10:]
    assert written(west, name, 1) == written(east, name, 1)
    again = asyncio.run(mapped().recover())
    assert [plain(each) for each in again.topics] == [plain(each) for each in found.topics]
    with pytest.raises(PlanRefused, match="goes on with mapped offsets") as refused:
        asyncio.run(recoverer().recover())
    assert "--way rebuild" in refused.value.hint
    _check_shown(fabric := Fabric(only, spark=spark), foreign=place - 1 - 20)
    built, now = asyncio.run(_rebuilt(only, spark, recoverer(way=RecoveryWay.REBUILD), (east, west)))
    assert [(each.group, each.before, each.after) for each in built.topics[0].positions] == [(group, place, 27)]
    assert now != before
    for partition in range(2):
        assert log_of(west, name, partition) == log_of(east, name, partition)
    (planned,) = fabric.plan().links[0].topics
    assert (planned.mode, planned.parted) == ("identity", None)


def _check_shown(fabric: Fabric, *, foreign: int) -> None:
    """That a verification, a status and a plan of the one topic say that it goes on mapped."""
    (verdict,) = fabric.verify().values()
    assert verdict.equal, verdict
    assert verdict.topics[0].foreign == foreign
    (status,) = fabric.status()
    assert status.topics[0].parted is not None
    assert status.topics[0].lag_records == 0
    (planned,) = fabric.plan().links[0].topics
    assert (planned.mode, planned.parted) == ("mapped", status.topics[0].parted)


async def _rebuilt(
    only: Configuration, spark: SparkSession, recoverer: LinkRecoverer, sides: tuple[LocalCluster, LocalCluster]
) -> tuple[Recovery, str]:
    """What a rebuilding while the link runs came to, and the id of the topic once its partitions end alike."""
    (east, west), (name,) = sides, tuple(recoverer.topics)
    async with running(only, spark) as run:
        recovered = await recoverer.recover()
        await run.until(lambda: _same_end(east, west, name))
        return recovered, await topic_id(west, name)


async def _same_end(east: LocalCluster, west: LocalCluster, name: str) -> bool:
    return await ends(east, name, partitions=2) == await ends(west, name, partitions=2)


async def _holds(cluster: LocalCluster, name: str, wanted: list[topics.Given]) -> bool:
    found = {value for _, value, _ in await asyncio.to_thread(written, cluster, name)}
    return {each.value for each in wanted} <= found


async def _place(cluster: LocalCluster, name: str, value: bytes) -> int:
    """Where the last record with this value lies."""
    stored = await asyncio.to_thread(log_of, cluster, name)
    return max(each.offset for each in stored if each.value == value)


async def forgotten(cluster: LocalCluster, link: str) -> None:
    """Take out of the ledger what leases wrote of their maps; what the command wrote is written down again by it."""
    async with Client(cluster.cluster()) as client:
        documents = (await recollect(link, client)).documents
        maps = MapDocument.find_all(documents.values())
        begun = [
            replace(each, segment="parted", ranges=(shared,), cursor=cursor)
            for each in maps
            if each.ranges and each.ranges[0].shift == 0
            for shared, cursor in [(each.ranges[0], began(each))]
        ]
        gone = [Deletion(each.key) for each in maps if any(each.topic == other.topic for other in begun)]
        writer = LedgerWriter(client)
        try:
            await writer.append([*gone, *begun])
        finally:
            writer.close()


def began(document: MapDocument) -> Cursor:
    """Where a lane was when the command had written its map."""
    _, *behind = document.ranges
    place, first = behind[0], document.cursor.first_ordinal
    return replace(document.cursor, source_offset=place.source_begin, ordinal=first, target_offset=place.target_begin)


def test_other_divergences_go_on_mapped(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """After an unclean election, and after a gap, with no run: what comes next is behind the target's end, and the gap
    is told. Refused: a topic alike on both sides is left as it is, one that would lose its timestamps, and one whose
    source is away.
    """
    link, unclean, gap, alike, stamped = (topic(each) for each in ("link", "unclean", "gap", "alike", "stamped"))
    lost(east, west, unclean)
    overtaken(east, west, gap)
    lost(east, west, stamped)
    topics.configure(west, stamped, message_timestamp_type="LogAppendTime")
    topics.create(east, alike)
    topics.produce(east, alike, records(3))
    only = link_between(east, west, link, unclean, gap, alike)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.3, way=RecoveryWay.MAPPED)
    held = {each: log_of(west, each) for each in (unclean, gap)}
    found = asyncio.run(recoverer(topics=[unclean, gap, alike]).recover())
    assert {each.topic: each.stage for each in found.topics} == {
        unclean: RecoveryStage.DONE,
        gap: RecoveryStage.DONE,
        alike: None,
    }
    topics.produce(east, unclean, records(2, begin=200))
    asyncio.run(caught_up(only, spark))
    assert log_of(west, unclean)[:20] == held[unclean]
    assert written(west, unclean)[20:] == written(east, unclean)[12:]
    assert log_of(west, gap)[:10] == held[gap]
    assert written(west, gap)[10:] == written(east, gap)
    assert log_of(west, alike) == log_of(east, alike)

    # As after a crash of a lease that had written nothing down: what it appended is found again at the target.
    asyncio.run(forgotten(west, link))
    for each in (unclean, gap):
        topics.produce(east, each, records(2, begin=300))
    asyncio.run(caught_up(only, spark))
    assert written(west, unclean)[20:] == written(east, unclean)[12:]
    assert written(west, gap)[10:] == written(east, gap)
    fabric = Fabric(only, spark=spark)
    verdict = fabric.verify()[link]
    assert verdict.equal, verdict
    assert {each.target_topic: each.foreign for each in verdict.topics} == {unclean: 8, gap: 0, alike: 0}
    (status,) = fabric.status()
    gaps = {str(each.topic): [p.gaps for p in each.partitions] for each in status.topics}
    assert [(each.offset_begin, each.offset_end) for each in gaps[gap][0]] == [(10, 15)]

    other = link_between(east, west, topic("other"), stamped)
    refusing = LinkRecoverer(configuration=other, name=other.links[0].name, topics=[stamped], way=RecoveryWay.MAPPED)
    with pytest.raises(PlanRefused, match=r"cannot go on with mapped offsets.*LogAppendTime"):
        asyncio.run(refusing.recover())
    nowhere = replace(east.cluster(), bootstrap_servers=("127.0.0.1:1",))
    away = replace(only, links=(replace(only.links[0], source=nowhere),))
    with pytest.raises(ClusterError, match="east"):
        asyncio.run(LinkRecoverer(configuration=away, name=link, topics=[alike], way=RecoveryWay.MAPPED).recover())
