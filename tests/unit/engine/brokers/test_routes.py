"""Who leads what, as metadata of all ages tells it."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Final

import pytest

from isthmus.engine.brokers import routes as module
from isthmus.engine.brokers.routes import GONE_AFTER_S, Leader, Routes, TopicGone, TopicRecreated
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID, Broker, Metadata, PartitionMetadata, TopicMetadata
from isthmus.model.cluster import Cluster

TOPIC: Final = "orders"
FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def told(leader: int, epoch: int, topic_id: uuid.UUID = FIRST, *, code: int = codes.NONE) -> Metadata:
    """What a broker says of a topic of one partition."""
    partition = PartitionMetadata(0, leader, epoch, (1, 2, 3), (1, 2, 3), codes.NONE)
    topic = TopicMetadata(TOPIC, topic_id, () if code else (partition,), code, is_internal=False)
    brokers = {node: Broker(node, "127.0.0.1", 9090 + node, None) for node in (1, 2, 3)}
    return Metadata("cluster", 1, brokers, {TOPIC: topic})


def routes_told(*answers: Metadata) -> Routes[str]:
    """Routes that have heard all this and then found the leader wrong."""
    routes = Routes[str](Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))))
    for answer in answers:
        routes._take(answer)
    routes.forget(TOPIC, 0)
    return routes


@pytest.mark.parametrize("answer", [told(1, 4), told(-1, 4)], ids=["leader", "no leader"])
def test_former_leaders_are_not_believed(answer: Metadata) -> None:
    """What a broker says that has not heard of the last election counts for nothing, now and later."""
    routes = routes_told(told(1, 4), told(2, 5))
    routes._take(answer)
    assert routes.leader(TOPIC, 0) is None
    routes._take(told(2, 5))
    assert routes.leader(TOPIC, 0) == Leader(2, 5)
    routes._take(answer)
    assert routes.leader(TOPIC, 0) == Leader(2, 5)
    routes._take(told(1, 6))
    assert routes.leader(TOPIC, 0) == Leader(1, 6)


def test_an_election_without_a_winner_counts() -> None:
    """Whoever led before a partition lost its leader is not believed after it."""
    routes = routes_told(told(1, 4), told(-1, 5))
    routes._take(told(1, 4))
    assert routes.leader(TOPIC, 0) is None


def test_brokers_that_tell_no_epochs() -> None:
    """The leader they name is the leader."""
    routes = routes_told(told(1, -1))
    for leader in (2, 1):
        routes._take(told(leader, -1))
        assert routes.leader(TOPIC, 0) == Leader(leader, -1)


def test_a_recreated_topic_begins_anew() -> None:
    """Epochs belong to a topic id: those of another topic under the name are lower, and right."""
    routes = routes_told(told(1, 7))
    routes._take(told(2, 0, SECOND))
    assert routes.leader(TOPIC, 0) == Leader(2, 0)
    with pytest.raises(TopicRecreated):
        routes.check(TOPIC, FIRST)


def test_a_topic_without_id_begins_anew_when_it_was_gone() -> None:
    """Where brokers know no topic ids, a topic that was missing meanwhile is another one."""
    routes = routes_told(told(1, 7, NO_TOPIC_ID), told(-1, -1, NO_TOPIC_ID, code=codes.UNKNOWN_TOPIC_OR_PARTITION))
    routes._take(told(2, 0, NO_TOPIC_ID))
    assert routes.leader(TOPIC, 0) == Leader(2, 0)


def test_a_topic_that_one_broker_does_not_know_keeps_its_epochs() -> None:
    """A broker that has missed a creation does not undo what is known of the topic."""
    routes = routes_told(told(2, 5), told(-1, -1, NO_TOPIC_ID, code=codes.UNKNOWN_TOPIC_OR_PARTITION))
    routes._take(told(1, 4))
    assert routes.leader(TOPIC, 0) is None


def test_a_broker_without_topic_ids_among_others() -> None:
    """While brokers are upgraded one of them may know no ids: what is known of the topic stays known."""
    routes = routes_told(told(2, 5), told(2, 5, NO_TOPIC_ID))
    routes._take(told(1, 4, NO_TOPIC_ID))
    assert routes.leader(TOPIC, 0) is None
    routes._take(told(1, 0, SECOND))
    with pytest.raises(TopicRecreated):
        routes.check(TOPIC, FIRST)


def test_one_answer_that_knows_no_topic_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago it was given: the broker may have just started. Only if all say so for a while it is gone."""
    now = 1000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    missing = told(-1, -1, NO_TOPIC_ID, code=codes.UNKNOWN_TOPIC_OR_PARTITION)
    routes = routes_told(told(1, 4), missing)
    now += 10 * GONE_AFTER_S
    routes.check(TOPIC, FIRST)
    for answer in (told(1, 4), missing):
        routes._take(answer)
    now += GONE_AFTER_S
    routes._take(missing)
    routes.check(TOPIC, FIRST)
    now += 0.1
    routes._take(missing)
    with pytest.raises(TopicGone):
        routes.check(TOPIC, FIRST)
    routes._take(told(1, 4))
    routes.check(TOPIC, FIRST)


def test_a_topic_in_place_of_another_is_waited_for() -> None:
    """A lane of a topic that was created again is not held against what was heard of the one before, now or later."""
    routes = routes_told(told(1, 7))
    routes.expect(TOPIC, SECOND)
    routes.check(TOPIC, SECOND)
    routes._take(told(1, 7))
    routes.check(TOPIC, SECOND)
    assert routes.leader(TOPIC, 0) is None
    routes._take(told(2, 0, SECOND))
    routes.check(TOPIC, SECOND)
    assert routes.leader(TOPIC, 0) == Leader(2, 0)


def test_a_refresh_that_outlives_its_client_ends_quietly() -> None:
    """A lane that ends waits no more for what it shares with others; its lease closes the client all the same."""

    async def left() -> Routes[str]:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            routes = Routes[str](client)
            waiting = asyncio.create_task(routes.refresh())
            await asyncio.sleep(0)
            waiting.cancel()
        assert routes._refreshing is not None
        await routes._refreshing
        return routes

    assert isinstance(asyncio.run(left()).error, Unreachable)
