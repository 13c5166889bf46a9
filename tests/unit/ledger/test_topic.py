"""Finding the ledger, by what brokers say of its topic."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse

from isthmus.errors import BrokerRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogPlace
from isthmus.kafka.metadata import NO_TOPIC_ID, Broker, Metadata, PartitionMetadata, TopicMetadata
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION, ensure_topic, is_missing, locate
from isthmus.model.cluster import Cluster

TOPIC_ID = uuid.UUID(int=5)
LEADER = 2


class Brokers(Client):
    """Three brokers, of which those of `knowing` have heard of the ledger and `silent` ones do not answer. Whoever is
    asked without being named is the first.
    """

    def __init__(self, *, knowing: Collection[int], silent: Collection[int] = ()) -> None:
        super().__init__(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",)))
        self._knowing, self._silent = knowing, silent

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        node_id = node_id or 1
        if node_id in self._silent:
            raise Unreachable("no answer", cluster="nowhere")
        partition = PartitionMetadata(PARTITION, LEADER, 0, (LEADER,), (LEADER,), codes.NONE)
        topic = TopicMetadata(LEDGER_TOPIC, TOPIC_ID, (partition,), codes.NONE, False)
        if node_id not in self._knowing:
            topic = TopicMetadata(LEDGER_TOPIC, NO_TOPIC_ID, (), codes.UNKNOWN_TOPIC_OR_PARTITION, False)
        brokers = {node: Broker(node, "127.0.0.1", node, None) for node in (1, 2, 3)}
        return Metadata(None, 1, brokers, {LEDGER_TOPIC: topic})


def located(client: Client) -> LogPlace:
    """Where the ledger is."""

    async def scenario() -> LogPlace:
        async with client:
            return await locate(client, term_s=0.2)

    return asyncio.run(scenario())


@pytest.mark.parametrize("silent", [(), (2,)])
def test_a_broker_that_has_not_heard_of_the_ledger(silent: tuple[int, ...]) -> None:
    """Another one has: who took the first one's word would take over a link that somebody runs."""
    assert located(Brokers(knowing=[3], silent=silent)) == LogPlace(TOPIC_ID, LEADER, 0)


def test_no_ledger() -> None:
    """All brokers say so."""
    with pytest.raises(BrokerRefused) as told:
        located(Brokers(knowing=[]))
    assert is_missing(told.value)


def test_a_broker_that_does_not_answer_may_know_the_ledger() -> None:
    """The others may have just started: that they know of none is no proof."""
    with pytest.raises(Unreachable, match="broker 2, 3 does not answer"):
        located(Brokers(knowing=[], silent=(2, 3)))


class Creating(Brokers):
    """Brokers that hear of the ledger two questions after the controller has created it."""

    def __init__(self) -> None:
        super().__init__(knowing=[])
        self._questions_left = -1

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        if self._questions_left == 0:
            self._knowing = [1]
        self._questions_left -= 1
        return await super().metadata(topics, node_id=node_id)

    async def controller(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        self._questions_left = 2
        result = CreateTopicsResponse.CreatableTopicResult(name=request.topics[0].name, error_code=codes.NONE)
        return CreateTopicsResponse(topics=[result])


def test_a_created_ledger_is_there() -> None:
    """Whoever has it created can find it: brokers hear of it after the controller has answered."""

    async def scenario() -> LogPlace:
        async with Creating() as client:
            await ensure_topic(client)
            return await locate(client)

    assert asyncio.run(scenario()) == LogPlace(TOPIC_ID, LEADER, 0)
