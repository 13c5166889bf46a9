"""What a link mirrors, by what brokers say of its topics."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from isthmus.kafka import codes
from isthmus.kafka.metadata import Metadata
from isthmus.memory.claims import Claims
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription, TopicIds
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.checks.settling import Settling
from isthmus.topics.loop import TopicLoop, _Shape, _Side
from isthmus.topics.observation import ObservedLink
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.preflight import TopicPair
from testing.values.names import EAST, WEST

TOPIC: Final = TargetTopic("orders")
LINK: Final = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())
SIDE: Final = _Side(uuid.UUID(int=1), 3, codes.NONE)
WHOLE, WITHOUT = _Shape(SIDE, SIDE), _Shape(SIDE, None)


def running() -> TopicLoop:
    """A loop that has looked at a topic and found it sound."""
    nothing: Any = None
    link: Any = SimpleNamespace(name="east-west")
    loop = TopicLoop(link, nothing, nothing, claims=nothing, recorded={}, remember=nothing, has_claimed=nothing)
    assert loop._due({TOPIC: WHOLE}) == [TOPIC]
    loop._topics[TOPIC] = TopicPlan(topic=TargetTopic(TOPIC), source_topic=SourceTopic(TOPIC), action=Action.COPY)
    return loop


def test_what_is_recorded_of_topics_that_do_not_run_is_for_others_to_change() -> None:
    """A follower that became a leader is written down anew when it is attached again; of topics that run nobody else
    has a say.
    """
    loop, left = running(), TargetTopic("left")
    own, theirs = (
        TopicIds(source_topic=SourceTopic("a"), source=uuid.UUID(int=1), target=uuid.UUID(int=n)) for n in (2, 3)
    )
    loop._recorded, loop._begun = {TOPIC: own, left: own}, {TOPIC, left}
    loop.recall({TOPIC: theirs, TargetTopic("new"): theirs})
    assert loop._recorded == {TOPIC: own, TargetTopic("new"): theirs}
    assert loop._begun == {TOPIC}


def gone(state: LaneState = LaneState.SOURCE_DELETED) -> TopicPlan:
    """A topic of which the source has none, or another one."""
    notes = (Problem("it was deleted"),)
    return TopicPlan(topic=TOPIC, source_topic=SourceTopic(TOPIC), action=Action.KEEP, state=state, notes=notes)


def resting(state: LaneState = LaneState.SOURCE_DELETED) -> TopicLoop:
    """A loop with a topic that its source has deleted, and clusters that have no topics."""
    loop, link = running(), replace(LINK, topics=TopicSettings(include=(TopicPattern.parse("o*"),)))
    loop._link, loop._topics[TOPIC], loop._names = link, gone(state), NamedTopics(sources={TOPIC: SourceTopic(TOPIC)})
    ids = TopicIds(source_topic=SourceTopic(TOPIC), source=uuid.UUID(int=1), target=uuid.UUID(int=2))
    loop._recorded = {TOPIC: ids}
    loop._plan = LinkPlan(link="l", source="east", target="west", source_id="E", target_id="W", topics=())

    async def told(*_: Any) -> Metadata:
        return Metadata("E", 1, {}, {})

    cluster: Any = SimpleNamespace(metadata=told, cluster=EAST)
    loop._source = loop._target = cluster
    return loop


def test_what_is_forgotten_while_the_clusters_are_asked_is_gone() -> None:
    """The deletion of its copy ends just then: the next looks do without it, and the link goes on."""
    loop = resting()

    async def asked(*_: Any) -> Metadata:
        loop.forgotten(TOPIC)
        return Metadata("W", 1, {}, {})

    target: Any = SimpleNamespace(metadata=asked)
    loop._target = target
    asyncio.run(loop.refresh())
    assert TOPIC not in loop._topics


def test_what_is_forgotten_while_it_is_looked_into_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be looked for later on although nobody knows any more of what it was made."""
    loop = resting()

    async def planned(*_: Any) -> LinkPlan:
        loop.forgotten(TOPIC)
        assert loop._plan is not None
        return replace(loop._plan, topics=(gone(),))

    monkeypatch.setattr(loop, "_plan_topics", planned)
    loop._claims, loop._creates = Claims(), False
    loop._settling = Settling("l", loop._claims, None)
    asyncio.run(loop._renew([TOPIC]))
    assert TOPIC not in loop._topics


def test_a_topic_that_came_back_while_its_copy_was_deleted_begins_anew() -> None:
    """It was seen to be another one before the link was to forget the one that it had: what is remembered of that
    counts only where its copy is in the way.
    """
    loop = resting(LaneState.TOPIC_RECREATED)
    loop.forgotten(TOPIC)
    assert TOPIC not in loop._topics
    assert loop._recorded[TOPIC].is_forgotten


def test_a_topic_that_one_broker_does_not_know() -> None:
    """One such answer is passed over, also the next time: only two in a row say that the topic has gone."""
    loop = running()
    for _ in range(2):
        assert loop._due({TOPIC: WITHOUT}) == []
        assert loop._due({TOPIC: WHOLE}) == []
    assert loop._due({TOPIC: WITHOUT}) == []
    assert loop._due({TOPIC: WITHOUT}) == [TOPIC]


def test_a_source_that_loses_records_is_caught_up_with_where_it_ends_now() -> None:
    """A compacted target is filled up to where its source ended when it was seen to be compacted: what comes later has
    keys, and what the source has lost since, in an unclean election, does not come.
    """
    loop = running()
    compacted = ConfigEntry("compact", ConfigSource.DYNAMIC_TOPIC)
    source = TopicDescription(
        name="orders",
        topic_id=uuid.UUID(int=1),
        partition_count=1,
        replication_factor=1,
        configs={"cleanup.policy": compacted},
    )
    observed = ObservedLink(link=LINK, source_id="E", target_id="W", target_brokers=1)

    def filled_end(end: int) -> int:
        pair = TopicPair(name=TOPIC, source=source, target=None, source_ranges={0: LogRange(0, end, end)})
        return loop._with_filling(replace(observed, pairs={TOPIC: pair})).pairs[TOPIC].filled_ends[0]

    assert [filled_end(end) for end in (100, 200, 60, 90)] == [100, 100, 60, 60]
