"""The topics and records that loops write, on brokers that restart and on brokers that refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.errors import NotAuthorized
from isthmus.groups.plan import GroupPlan, GroupsPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.admin.internal_topics import InternalTopics
from isthmus.kafka.client import Client
from isthmus.kafka.log.contents import stored_records
from isthmus.kafka.transactions.appending import TopicAppender
from isthmus.local import LocalCluster
from isthmus.loops.loop import LinkView
from isthmus.mirrormaker.checkpoints import CheckpointLoop
from isthmus.mirrormaker.heartbeats import HeartbeatLoop
from isthmus.model.kafka.group import Committed
from isthmus.model.kafka.mirrormaker_records import Checkpoint, CheckpointKey, KeyedRecord, checkpoint_of, heartbeat_of
from isthmus.model.mirrormaker import MirrorMakerSettings
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.topics.plan import LinkPlan
from testing.brokers.acls import denied
from testing.records import topics
from testing.runs.running import link_of

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
NOW_MS = topics.SEPTEMBER


def numbered(begin: int, end: int) -> list[KeyedRecord]:
    return [KeyedRecord(b"%d" % n, b"value") for n in range(begin, end)]


def test_records_are_there_once_and_in_order(topic: TopicNamer) -> None:
    """Whatever becomes of the broker in between: one that was killed is waited for, and nothing is written twice."""
    name = topic("appended")

    async def scenario(cluster: LocalCluster) -> list[bytes]:
        async with Client(cluster.cluster()) as client:
            appender = TopicAppender(client, name)
            await appender.append(numbered(0, 20_000), now_ms=NOW_MS)
            cluster.broker(1).kill()
            cluster.broker(1).start(wait=False)
            await appender.append(numbered(20_000, 20_010), now_ms=NOW_MS, term_s=60.0)
            await appender.append(numbered(20_010, 20_020), now_ms=NOW_MS)
            appender.close()
            return [record.key async for record in stored_records(client, name)]

    with LocalCluster.start("mortal", brokers=1, heap_mb=256) as cluster:
        topics.create(cluster, name)
        assert asyncio.run(scenario(cluster)) == [b"%d" % n for n in range(20_020)]


def test_the_end_of_a_topic_is_read_alone(east: LocalCluster, topic: TopicNamer) -> None:
    """Of a topic that holds much, no more than the last offsets asked for."""
    name = topic("ended")
    topics.create(east, name)

    async def scenario() -> list[bytes]:
        async with Client(east.cluster()) as client:
            appender = TopicAppender(client, name)
            for n in range(50):
                await appender.append(numbered(n, n + 1), now_ms=NOW_MS)
            appender.close()
            return [record.key async for record in stored_records(client, name, offsets_max=7)]

    assert asyncio.run(scenario()) == [b"%d" % n for n in range(43, 50)]


def test_topics_are_made_as_mirror_maker_makes_them(east: LocalCluster, topic: TopicNamer) -> None:
    """One partition, compacted; a topic that is there is left as it is, and what is wrong with it is told."""
    made, other = topic("made"), topic("other")
    topics.create(east, other, partitions=2, cleanup_policy="delete")

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            internal = InternalTopics("some")
            planned = await internal.look(client, made)
            assert [(one.setting, one.before, one.after, one.problem) for one in planned] == [
                ("partitions", None, "1, compacted", None)
            ]
            assert await internal.create(client, planned) == ()
            assert await internal.create(client, planned) == ()
            topics.await_served(east, made)
            assert await internal.look(client, made) == ()
            left = await internal.create(client, await internal.look(client, other))
            assert [one.setting for one in left] == ["cleanup.policy", "partitions"]
            assert all(one.problem is not None and one.problem.hint for one in left)

    asyncio.run(scenario())


def test_a_missing_right_is_told(guarded: LocalCluster, east: LocalCluster) -> None:
    """Without CREATE or WRITE there are no heartbeats, and the loop says what to grant; then they come."""
    link = replace(link_of(east.cluster(), guarded.cluster()), mm2=MirrorMakerSettings(heartbeats=True))
    plan = LinkPlan(link=link.name, source="east", target="guarded")

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            view = LinkView(link=link, source=source, target=target, plan=plan)
            loop = HeartbeatLoop()
            with denied(guarded, ResourceType.TOPIC, "heartbeats", AclOperation.CREATE):
                (left,) = await loop.apply(view, await loop.look(view))
                assert left.problem is not None
                assert "CREATE on topic heartbeats" in left.problem.hint
            assert await loop.apply(view, await loop.look(view)) == ()
            with denied(guarded, ResourceType.TOPIC, "heartbeats", AclOperation.WRITE):
                with pytest.raises(NotAuthorized) as caught:
                    await loop.apply(view, await loop.look(view))
                assert "WRITE on topic heartbeats" in caught.value.hint
            assert await loop.apply(view, await loop.look(view)) == ()
            await loop.aclose()
            beats = [heartbeat_of(record) async for record in stored_records(target, "heartbeats")]
        assert [(beat.source_alias, beat.target_alias) for beat in beats] == [
            (link.source.alias, link.target.alias)
        ] * 2

    asyncio.run(scenario())


EXPECTED = Checkpoint(CheckpointKey("g", TargetTopic("there"), 0), 100, 100)


def checkpointing(source: Client, target: Client) -> LinkView:
    """A link of two clusters that has one checkpoint to write, the one that is `EXPECTED`."""
    link = replace(link_of(source.cluster, target.cluster), mm2=MirrorMakerSettings(checkpoints=True))
    position = PositionPlan(
        topic=SourceTopic("here"),
        partition=0,
        target_topic=TargetTopic("there"),
        source=Committed(100),
        translated=100,
        committed=None,
        log_start=0,
        high_watermark=500,
        standing=Standing.IN_STEP,
    )
    group = GroupPlan(group="g", target_group="g", standing=Standing.IN_STEP, positions=(position,))
    return LinkView(
        link=link,
        source=source,
        target=target,
        plan=LinkPlan(link=link.name, source=source.cluster.alias, target=target.cluster.alias),
        groups=GroupsPlan(
            link=link.name,
            source=source.cluster.alias,
            target=target.cluster.alias,
            way="identity",
            groups=(group,),
        ),
    )


async def look_anew(view: LinkView) -> None:
    """Write the checkpoints that are due, as a run does first that begins."""
    loop = CheckpointLoop()
    assert await loop.apply(view, await loop.look(view)) == ()
    await loop.aclose()


def test_checkpoints_are_written_without_the_right_to_read_them(guarded: LocalCluster, east: LocalCluster) -> None:
    """A loop that begins anew and may not read its topic writes what it knows once more, as MirrorMaker 2 does."""

    async def scenario() -> None:
        async with Client(east.cluster()) as source, Client(guarded.cluster()) as target:
            view = checkpointing(source, target)
            name = view.link.mm2_names.checkpoints

            async def written() -> list[Checkpoint]:
                return [checkpoint_of(record) async for record in stored_records(target, name)]

            await look_anew(view)
            topics.await_served(guarded, name)
            await look_anew(view)
            assert await written() == [EXPECTED]
            with denied(guarded, ResourceType.TOPIC, name, AclOperation.READ):
                await look_anew(view)
            assert await written() == [EXPECTED] * 2

    asyncio.run(scenario())


def test_broken_checkpoints_are_passed_over(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """What others wrote into the topic, and checkpoints of other groups, keep no loop that begins anew from knowing the
    last checkpoint of its own: it writes nothing.
    """
    key, value = EXPECTED.record
    broken = [
        KeyedRecord(key, b"\0"),
        KeyedRecord(key, b"\0\7" + value[2:]),
        KeyedRecord(key, b""),
        KeyedRecord(b"\xff", value),
        KeyedRecord(b"", b"no checkpoint"),
    ]
    other = EXPECTED._replace(key=EXPECTED.key._replace(group="other"), upstream=7)
    there = [*broken, EXPECTED._replace(upstream=40, downstream=40).record, other.record, EXPECTED.record, *broken]

    async def scenario() -> None:
        known = replace(east.cluster(), alias=topic("primary"))
        async with Client(known) as source, Client(west.cluster()) as target:
            view = checkpointing(source, target)
            name = view.link.mm2_names.checkpoints
            topics.create(west, name, cleanup_policy="compact")
            appender = TopicAppender(target, name)
            await appender.append(there, now_ms=NOW_MS)
            appender.close()
            await look_anew(view)
            assert [record async for record in stored_records(target, name)] == there

    asyncio.run(scenario())
