"""What a link mirrors, by what brokers say of its topics."""

from __future__ import annotations

import uuid
from typing import Any, Final

from isthmus.control.topics.loop import TopicLoop, _Shape, _Side
from isthmus.control.topics.plan import Action, TopicPlan
from isthmus.wire import codes

TOPIC: Final = "orders"
SIDE: Final = _Side(uuid.UUID(int=1), 3, codes.NONE)
WHOLE, WITHOUT = _Shape(SIDE, SIDE), _Shape(SIDE, None)


def running() -> TopicLoop:
    """A roster that has looked at a topic and found it sound."""
    nothing: Any = None
    roster = TopicLoop(nothing, nothing, nothing, claims=nothing, recorded={}, remember=nothing)
    assert roster._due({TOPIC: WHOLE}) == [TOPIC]
    roster._topics[TOPIC] = TopicPlan(topic=TOPIC, action=Action.COPY)
    return roster


def test_a_topic_that_one_broker_does_not_know() -> None:
    """One such answer is passed over, also the next time: only two in a row say that the topic has gone."""
    roster = running()
    for _ in range(2):
        assert roster._due({TOPIC: WITHOUT}) == []
        assert roster._due({TOPIC: WHOLE}) == []
    assert roster._due({TOPIC: WITHOUT}) == []
    assert roster._due({TOPIC: WITHOUT}) == [TOPIC]
