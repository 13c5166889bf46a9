"""The topics for dead letters of a link are created with its topics, and kept as they have to be, on real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.kafka.admin.changes import add_partitions, await_leaders
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from isthmus.model.links.deadletters import dead_letters_of, letters_transaction_of
from isthmus.model.links.transform import OnError, RecordFunction, Transform
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.topics.plan import TopicPlan
from testing.brokers.acls import denied
from testing.records import topics
from testing.runs.mirrored import Mirrored, mirrored

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
CHANGED = Transform(python=RecordFunction("json", "dumps"), on_error=OnError.DEAD_LETTER)


def keep_letters(m: Mirrored) -> None:
    """Begin anew as a link that keeps dead letters."""
    settings = replace(m.link.topics, offsets=OffsetPolicy.AUTO)
    m.link = replace(m.link, topics=settings, transforms=(CHANGED,))
    m.begin()


def test_they_are_created_and_enlarged_and_made_again(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """Each has the partitions of its topic and deletes nothing; one that was deleted is made again at the next look."""
    name = topic("lettered")

    async def scenario() -> None:
        async with mirrored(east, west, name) as m:
            keep_letters(m)
            where = dead_letters_of(m.link.name, TargetTopic(name))
            await asyncio.to_thread(topics.create, east, name, partitions=2)
            await m.loop.refresh()
            assert lanes(m) == 2
            own = await asyncio.to_thread(topics.own_configs, west, where)
            assert (own["retention.ms"], own["max.message.bytes"]) == ("-1", str(64 << 20))

            await add_partitions(m.source, {name: 3})
            await await_leaders(m.source, {name: 3})
            await m.loop.refresh()
            assert lanes(m) == 3
            assert len((await m.target.metadata([where])).topics[where].partitions) == 3

            await asyncio.to_thread(topics.delete, west, where)
            before = m.loop.lanes
            # One look alone may have met a broker that does not know the topic yet.
            await m.loop.refresh()
            await m.loop.refresh()
            assert m.loop.lanes == before
            assert len((await m.target.metadata([where])).topics[where].partitions) == 3

    asyncio.run(scenario())


def test_a_target_that_allows_none_is_refused(east: LocalCluster, secured: LocalCluster, topic: TopicNamer) -> None:
    """Before the first record, with the right that is missing: to create the topic, to write it, or to write it in
    transactions.
    """
    name = topic("denied")
    topics.create(east, name)

    async def scenario() -> None:
        async with mirrored(east, secured, name) as m:
            keep_letters(m)
            where = dead_letters_of(m.link.name, TargetTopic(name))
            with denied(secured, ResourceType.TOPIC, where, AclOperation.CREATE):
                assert "creating topic" in refused(await planned_anew(m, name), where)
            named = letters_transaction_of(m.link.name, TargetTopic(name), 0)
            with denied(secured, ResourceType.TRANSACTIONAL_ID, named, AclOperation.WRITE):
                assert "WRITE on transactional id" in refused(await planned_anew(m, name), named)
            assert where not in topics.names(secured)
            with denied(secured, ResourceType.TOPIC, where, AclOperation.WRITE):
                assert "WRITE on topic" in refused(await planned_anew(m, name), where)
                assert where in topics.names(secured)
            assert len((await planned_anew(m, name)).lanes) == 1

    asyncio.run(scenario())


async def planned_anew(m: Mirrored, name: str) -> TopicPlan:
    """The plan that a run makes at its first look."""
    m.begin()
    return await m.planned(name)


def lanes(m: Mirrored) -> int:
    """How many lanes are to run now."""
    return len(m.loop.lanes)


def refused(plan: TopicPlan, what: str) -> str:
    """Why a topic is refused, for a reason about this."""
    (problem,) = plan.reasons
    assert (plan.state, plan.lanes) == (LaneState.NOT_AUTHORIZED, ())
    assert what in problem.in_full
    return problem.message
