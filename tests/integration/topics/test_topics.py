"""A link's topics are found, created and watched on real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import DeleteTopicsRequest

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka.admin.changes import NewTopic, add_partitions, await_leaders, create_topics
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.local import LocalCluster
from isthmus.memory.claims import Claim
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern
from isthmus.model.trees.switching import Lack, LaneBegin
from isthmus.topics import execution, observation
from isthmus.topics.plan import Action, TopicPlan
from isthmus.topics.preflight import TopicMode
from isthmus.trees.reconciling import ReconcilingLoop
from testing.records import topics
from testing.runs.mirrored import Rival, mirrored

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


async def create(client: Client, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic that is ready."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name=name, partition_count=partitions, configs=named)
    assert (await create_topics(client, [new])).errors == {}
    await await_leaders(client, {name: partitions})


async def delete(client: Client, name: str) -> None:
    """Delete a topic and wait until nobody knows it."""
    await client.controller(DeleteTopicsRequest(topic_names=[name], timeout_ms=5000, max_version=5))
    while (await client.metadata([name])).topics[name].error_code == 0:
        await asyncio.sleep(0.05)


def test_target_topic_is_created_like_the_source(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Partitions and configurations are taken over, and every partition gets a lane."""
    name = topic("orders")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            await create(m.source, name, 3, retention_ms="12345", cleanup_policy="compact")
            plan = await m.planned(name)
            assert (plan.action, plan.reasons) == (Action.COPY, ())
            assert [lane.partition for lane in plan.lanes] == [0, 1, 2]
            metadata = await m.target.metadata([name])
            target = (await describe_topics(m.target, metadata.topics.values())).values[name]
            assert target.partition_count == 3
            assert target.own_configs["retention.ms"] == "12345"
            assert target.own_configs["cleanup.policy"] == "compact"
            assert m.recorded[TargetTopic(name)].target == target.topic_id
            assert target.topic_id != (await m.source.metadata([name])).topics[name].topic_id

    asyncio.run(scenario())


@pytest.mark.parametrize("rival", ["a", "z"])
def test_a_topic_that_two_controllers_want_is_begun_by_one(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, rival: str
) -> None:
    """It is told that the topic is wanted before there is one, and the first by name begins once the other gave way."""
    name = topic("wanted")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            wanted = Claim(
                link=rival,
                source_topic=SourceTopic(name),
                target_topic=TargetTopic(name),
                source_id="elsewhere",
                target_id=(await m.target.metadata()).cluster_id or "",
                is_wanted=True,
            )
            other = Rival(wanted, m.target, says=3)
            m.begin(other)
            await create(m.source, name)
            await m.loop.refresh()
            assert m.loop.plan is not None
            (plan,) = m.loop.plan.topics
            if rival > m.link.name:
                assert (plan.reasons, len(plan.lanes), other.told) == ((), 1, [(name, False)])
            else:
                assert f"link {rival} is about to write" in plan.reasons[0].message
                assert other.told == [(name, False), (f"not {name}", False)]
                assert (await m.target.metadata([name])).topics[name].error_code != 0

    asyncio.run(scenario())


def test_new_topics_are_found_and_lanes_kept(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A topic that appears is mirrored from the next look on; lanes that run stay as they are."""
    stem = topic("found")

    async def scenario() -> None:
        async with mirrored(east, west, f"{stem}.*") as m:
            await create(m.source, f"{stem}.a")
            await m.loop.refresh()
            before = m.loop.lanes
            await create(m.source, f"{stem}.b", 2)
            await create(m.source, f"{stem}x")
            await m.loop.refresh()
            keys = [str(lane.key) for lane in m.loop.lanes]
            assert keys == [f"{stem}.a-0", f"{stem}.b-0", f"{stem}.b-1"]
            assert before[0] in m.loop.lanes

    asyncio.run(scenario())


def test_added_partitions_are_added(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Partitions the source adds are added to the target before their lanes run."""
    name = topic("grows")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            await create(m.source, name)
            await m.loop.refresh()
            assert len(m.loop.lanes) == 1
            await add_partitions(m.source, {name: 4})
            await await_leaders(m.source, {name: 4})
            assert len((await m.planned(name)).lanes) == 4
            assert len((await m.target.metadata([name])).topics[name].partitions) == 4

    asyncio.run(scenario())


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("grows_first", [True, False])
def test_added_partitions_are_found_again_after_a_failure(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, grows_first: bool, is_followed: bool
) -> None:
    """The ledger could not be written as they were found, also where an operator had added them to the target first, or
    settings had just changed: the next look finds them once more.
    """
    name = topic("grows")
    refusals: list[ClusterError] = []

    async def write_down(topics: Collection[TopicPlan], _: Collection[TargetTopic]) -> None:
        if refusals and any(each.topic == name for each in topics):
            raise refusals.pop()

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            m.begin(writes=write_down)
            await create(m.source, name)
            await m.loop.refresh()
            for cluster in (m.target, m.source) if grows_first else (m.source,):
                await add_partitions(cluster, {name: 2})
                await await_leaders(cluster, {name: 2})
            refusals.append(NotAuthorized("not now", cluster="west"))
            if is_followed:
                m.loop.follow(m.link)
            with pytest.raises(NotAuthorized):
                await m.planned(name)
            assert len((await m.planned(name)).lanes) == 2

    asyncio.run(scenario())


def test_a_broker_that_has_not_heard_of_a_new_partition(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker tells of it, and the one that is asked for more does not know it yet: it is looked at again."""
    name = topic("rumour")

    async def scenario() -> None:
        async with mirrored(east, west, f"{name}*") as m:
            await create(m.source, name)
            await m.loop.refresh()
            before, metadata = await m.source.metadata([name]), m.source.metadata
            await add_partitions(m.source, {name: 2})
            await await_leaders(m.source, {name: 2})
            left = [before]

            async def told(topics: Collection[str] | None = (), **options: Any) -> Metadata:
                return left.pop() if topics == [name] and left else await metadata(topics, **options)

            monkeypatch.setattr(m.source, "metadata", told)
            await m.loop.refresh()
            assert (len(m.loop.lanes), left) == (1, [])
            await m.loop.refresh()
            assert len(m.loop.lanes) == 2

    asyncio.run(scenario())


def not_heard_yet(client: Client, before: Metadata, times: int, patch: pytest.MonkeyPatch) -> list[Metadata]:
    """What brokers told `before` is what the next few say of the same topics; those answers as far as they are left."""
    left, metadata = [before] * times, client.metadata

    async def told(topics: Collection[str] | None = (), **options: Any) -> Metadata:
        asked = topics is not None and set(topics) == before.topics.keys()
        return left.pop() if asked and left else await metadata(topics, **options)

    patch.setattr(client, "metadata", told)
    return left


def test_a_broker_that_does_not_know_the_target_topic_as_a_run_begins(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has just started. The controller, which would have to create the topic, knows it: it goes on as it was begun,
    not mapped behind its copies.
    """
    name = topic("unheard")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            m.link = replace(m.link, topics=replace(m.link.topics, offsets=OffsetPolicy.AUTO))
            before = await m.target.metadata([name])
            await create(m.source, name)
            m.begin()
            (lane,) = (await m.planned(name)).lanes
            for cluster in (east, west):
                topics.produce(cluster, name, [topics.Given(None, b"copied", [], topics.SEPTEMBER)])
            m.begin()
            left = not_heard_yet(m.target, before, 2, monkeypatch)
            plan = await m.planned(name)
            assert (plan.lanes, plan.mode, left) == ((lane,), TopicMode.IDENTITY, [])
            m.begin()
            not_heard_yet(m.target, before, 2, monkeypatch)
            await m.loop.refresh()
            assert m.loop.lanes == (lane,), "one look is enough: what the controller has is waited for"

    asyncio.run(scenario())


def test_a_topic_that_brokers_have_not_heard_of_when_it_is_created(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that creates thousands takes its time. Nothing was refused: its lanes begin as soon as it is known."""
    name = topic("slow")
    monkeypatch.setattr(execution, "await_leaders", partial(await_leaders, timeout_s=0.2))

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            before, known = await m.target.metadata([name]), m.target.metadata
            await create(m.source, name)
            m.begin()
            not_heard_yet(m.target, before, 1000, monkeypatch)
            await m.loop.refresh()
            assert m.loop.plan is not None
            (plan,) = m.loop.plan.topics
            assert (plan.reasons, plan.lanes, plan.action) == ((), (), Action.CREATE)
            monkeypatch.setattr(m.target, "metadata", known)
            await m.loop.refresh()
            assert len(m.loop.lanes) == 1

    asyncio.run(scenario())


def test_what_the_target_does_not_create_is_told_of_the_target(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """Not of the source, which is sound: alerts by side go to the right people."""
    name = topic("clash")

    async def scenario() -> None:
        async with mirrored(east, west, f"{name}_a") as m:
            await create(m.target, f"{name}.a")
            await create(m.source, f"{name}_a")
            plan = await m.planned(f"{name}_a")
            assert plan.state is LaneState.TARGET_UNAVAILABLE
            assert "west refused creating topic" in plan.reasons[0].message

    asyncio.run(scenario())


def test_a_leaf_lacks_what_a_broker_of_the_source_does_not_know(
    east: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such answer leaves open whether the topic is there; one that is gone in several looks nobody can get."""
    name = topic("lacking")

    async def scenario() -> None:
        async with Client(east.cluster()) as source:
            before = await source.metadata([name])
            await create(source, name)
            topic_id = (await source.metadata([name])).topics[name].topic_id
            lack = Lack(LaneBegin(SourceTopic(name), topic_id, 0, 5), "cannot get it", is_stuck=True)
            loop = ReconcilingLoop(gone_s=0.1)
            not_heard_yet(source, before, 1, monkeypatch)
            assert await loop.there(source, [lack]) is None
            assert await loop.there(source, [lack]) == (lack,)
            await delete(source, name)
            assert await loop.there(source, [lack]) is None
            while (found := await loop.there(source, [lack])) is None:
                await asyncio.sleep(0.05)
            assert found == ()

    asyncio.run(scenario())


def test_a_source_broker_that_is_behind_is_asked_again(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off and names itself as leader, with the end that it knows: one such answer stops no lane."""
    name = topic("behind")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            await create(m.source, name)
            (lane,) = (await m.planned(name)).lanes
            left = [await log_ranges(m.source, [(name, 0)])]
            for cluster in (east, west):
                topics.produce(cluster, name, [topics.Given(None, b"copied", [], topics.SEPTEMBER)])

            async def told(
                client: Client, keys: Collection[PartitionKey], **options: Any
            ) -> Outcomes[PartitionKey, LogRange]:
                return left.pop() if client is m.source and left else await log_ranges(client, keys, **options)

            monkeypatch.setattr(observation, "log_ranges", told)
            m.begin()
            assert ((await m.planned(name)).lanes, left) == ((lane,), [])

    asyncio.run(scenario())


def test_recreated_source_topic_stops_its_lanes(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Another source topic of the same name is not copied over the old one, in no later run."""
    name = topic("again")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            await create(m.source, name)
            assert len((await m.planned(name)).lanes) == 1
            await delete(m.source, name)
            await create(m.source, name)
            for _ in range(2):
                plan = await m.planned(name)
                assert plan.state is LaneState.TOPIC_RECREATED
                assert plan.lanes == ()
                m.begin()
            await delete(m.target, name)
            m.begin()
            assert len((await m.planned(name)).lanes) == 1

    asyncio.run(scenario())


def test_a_topic_that_the_source_deleted_is_kept_or_forgotten(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """It is no trouble, for a controller that comes later neither. A link that says so forgets it, if it selects it by
    a pattern; and what comes under its name is mirrored where the target has none.
    """
    stem = topic("gone")
    name, named = f"{stem}.a", f"{stem}.named"

    async def scenario() -> None:
        async with mirrored(east, west, f"{stem}.*") as m:
            await create(m.source, name)
            await create(m.source, named)
            assert (await m.planned(name)).action is Action.COPY
            await delete(m.source, name)
            await delete(m.source, named)
            for _ in range(2):
                kept = await m.planned(name)
                assert (kept.action, kept.state, kept.reasons) == (Action.KEEP, LaneState.SOURCE_DELETED, ())
                assert m.loop.lanes == ()
                m.begin()
            both = (*m.link.topics.include, TopicPattern.parse(named))
            settings = replace(m.link.topics, include=both)
            m.link = replace(m.link, topics=settings, on_source_deleted="forget")
            m.begin()
            assert (await m.planned(named)).state is LaneState.SOURCE_DELETED
            assert m.forgotten == [name]
            assert m.loop.plan is not None
            assert [each.topic for each in m.loop.plan.topics] == [named]
            await create(m.source, named)
            assert (await m.planned(named)).state is LaneState.TOPIC_RECREATED
            await delete(m.target, named)
            m.begin()
            assert (await m.planned(named)).action is Action.COPY

    asyncio.run(scenario())


def test_deleted_target_topic_is_not_created_over(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A target topic that goes away stops its lanes; a new run begins anew."""
    name = topic("gone")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            await create(m.source, name)
            assert len((await m.planned(name)).lanes) == 1
            await delete(m.target, name)
            plan = await m.planned(name)
            assert plan.state is LaneState.TOPIC_RECREATED
            assert "target topic was deleted" in plan.reasons[0].message
            assert (await m.target.metadata([name])).topics[name].error_code != 0
            m.begin()
            assert len((await m.planned(name)).lanes) == 1

    asyncio.run(scenario())


def test_missing_topic_is_told_and_then_found(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A topic named in the configuration is told to be missing until it is there."""
    name = topic("later")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            plan = await m.planned(name)
            assert "no such topic" in plan.reasons[0].message
            await create(m.source, name)
            assert len((await m.planned(name)).lanes) == 1

    asyncio.run(scenario())
