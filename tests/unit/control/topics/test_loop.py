"""What a link mirrors, by what brokers say of its topics."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, Final

from isthmus.control.topics.loop import TopicLoop, _Shape, _Side
from isthmus.control.topics.plan import Action, TopicPlan
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.topic import TopicIds
from isthmus.wire import codes

TOPIC: Final = TargetTopic("orders")
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


def test_a_topic_that_one_broker_does_not_know() -> None:
    """One such answer is passed over, also the next time: only two in a row say that the topic has gone."""
    loop = running()
    for _ in range(2):
        assert loop._due({TOPIC: WITHOUT}) == []
        assert loop._due({TOPIC: WHOLE}) == []
    assert loop._due({TOPIC: WITHOUT}) == []
    assert loop._due({TOPIC: WITHOUT}) == [TOPIC]
