"""Producers that are moved to another cluster in the middle of a transaction, between two of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from isthmus.gateway.frames.messages import PRODUCE, TXN_OFFSET_COMMIT
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.kafka.transactions.aborting import transactions_in
from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import OpenTransaction
from testing.gateways.commits import Doing
from testing.gateways.moving import (
    committed_at,
    committed_records,
    forget_moves,
    linked_alike,
    reversed_with_lanes,
    transactional,
)
from testing.patience import TERM_S, UNFENCED
from testing.runs.mirror import Mirror
from tests.integration.gateway.withholding import Withholding, withholding

pytestmark = pytest.mark.integration
Pair = tuple[LocalCluster, LocalCluster]


class Writing(NamedTuple):
    """Which of its requests a transaction does not get through before it is moved; it may have positions by then."""

    key: int
    has_positions: bool = False


@pytest.fixture(scope="module", params=["true", "false"], ids=["verifying", "trusting"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two clusters whose brokers ask coordinators what transactions are about, or do not."""
    properties = {**UNFENCED, "transaction.partition.verification.enable": str(request.param)}
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(LocalCluster.start(alias, brokers=1, heap_mb=256, properties=properties))
            for alias in ("one", "two")
        )
        yield one, two


@pytest.mark.parametrize(
    "writing",
    [Writing(PRODUCE), Writing(PRODUCE, has_positions=True), Writing(TXN_OFFSET_COMMIT)],
    ids=["records", "records behind positions", "positions"],
)
def test_what_comes_of_a_transaction_that_the_other_cluster_has_aborted(
    writing: Writing, pair: Pair, topic: Callable[[str], str]
) -> None:
    """What a client announced at the cluster that it left it writes at the one where it is by then: nothing of that is
    taken, so nothing is left open there, and the client aborts and goes on, at a cluster where it has been before too.
    Nor is anything left open at the cluster that it left, whatever it had written there.
    """
    name = topic("halved")
    configuration, links = linked_alike(name, *pair)
    mirrors = Mirror(*pair), Mirror(*reversed(pair))
    try:
        with withholding(pair[0], configuration) as (running, way):
            producer = transactional(running.servers, name)
            written_with_positions(producer, name, 0)
            errors = []
            for number, mirror in enumerate(mirrors):
                link = f"{name}-{number}" if number else name

                def move(link: str = link, number: int = number, mirror: Mirror = mirror) -> None:
                    reversed_with_lanes(configuration, link, f"{name}-{number + 1}", mirror, name)

                errors.append(moved_at(producer, name, 2 * number + 1, way, writing, move))
                assert not [each for each in errors if each.fatal()], errors
                producer.abort_transaction(TERM_S)
                written_with_positions(producer, name, 2 * number + 2)
            links.delete(f"{name}-2")
        assert asyncio.run(left_open(pair[0], name)) == asyncio.run(left_open(pair[1], name)) == ()
        found = sorted(value for values in committed_records(pair[0], name).values() for value in values)
        assert found == [b"t-%d" % number for number in (0, 2, 4)], errors
        assert {key: each.offset for key, each in asyncio.run(committed_at(pair[0], name)).items()} == {(name, 0): 4}
    finally:
        asyncio.run(forget_moves(*pair))


def moved_at(
    producer: Producer, name: str, number: int, way: Withholding, writing: Writing, move: Callable[[], None]
) -> Any:
    """The error of a transaction that is moved when a request of this kind was to come."""
    producer.begin_transaction()
    if writing.has_positions:
        positions_sent(producer, name, number)
    if writing.key == PRODUCE:
        way.withhold(writing.key)
    producer.produce(name, b"t-%d" % number, partition=0)
    if writing.key != PRODUCE:
        assert producer.flush(TERM_S) == 0
        way.withhold(writing.key)

    def end() -> None:
        if not writing.has_positions:
            positions_sent(producer, name, number)
        producer.commit_transaction(TERM_S)

    doing = Doing(end)
    way.await_met()
    move()
    way.let_go()
    with pytest.raises(KafkaException) as error:
        doing.result()
    return error.value.args[0]


def written_with_positions(producer: Producer, name: str, number: int) -> None:
    """Write a number, and commit it as a position, in a transaction."""
    producer.begin_transaction()
    producer.produce(name, b"t-%d" % number, partition=0)
    positions_sent(producer, name, number)
    producer.commit_transaction(TERM_S)


def positions_sent(producer: Producer, name: str, number: int) -> None:
    """Have a transaction commit a number as a position."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": name})
    group = consumer.consumer_group_metadata()
    consumer.close()
    producer.send_offsets_to_transaction([TopicPartition(name, 0, number)], group, TERM_S)


async def left_open(cluster: LocalCluster, name: str) -> tuple[OpenTransaction, ...]:
    """What is open of a topic, and of positions."""
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        return await transactions_in(client, [name, OFFSETS_TOPIC])
