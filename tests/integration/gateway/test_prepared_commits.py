"""Transactions that are at the follower before they are committed, and what is left of them without their source."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from kafka.protocol.admin import DescribeTransactionsRequest

from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous.keeping import GIVEN_UP_S
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.aborting import transactions_in
from isthmus.kafka.transactions.finishing import find_unfinished, finish
from isthmus.local import LocalCluster
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.kafka.transactions import source_producer_id
from isthmus.model.naming import TargetTopic
from testing.brokers.hanging import trusting
from testing.gateways.commits import Doing, Log, await_held
from testing.gateways.gateways import HOST, Running
from testing.gateways.synchronous import Link, lanes, synchronous
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration
Name = Callable[[str], str]
Names = tuple[str, str]
Pair = tuple[Running, Link, Names]
RECORDS = 3


@pytest.fixture(scope="module")
def west_trusts(west: LocalCluster) -> Iterator[None]:
    """West takes records of transactions that no coordinator knows."""
    with trusting(west):
        yield


@pytest.fixture
def pair(east: LocalCluster, west: LocalCluster, west_trusts: None, topic: Name) -> Iterator[Pair]:
    """A gateway, its link, and two topics on both sides that are copied before it is known how transactions end."""
    names = topic("first"), topic("second")
    for name in names:
        topics.create_both(east, west, name)
    with synchronous(east, west, *names) as (front, link):
        link.is_whole = True
        yield front, link, names


def written(servers: str, *names: str) -> Producer:
    """A producer in the middle of a transaction, with records in these topics."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": names[0], "linger.ms": 0})
    producer.init_transactions(TERM_S)
    write(producer, *names)
    return producer


def write(producer: Producer, *names: str) -> None:
    """Have it begin another one."""
    producer.begin_transaction()
    for name in names:
        for number in range(RECORDS):
            producer.produce(name, b"%d" % number)
    assert producer.flush(TERM_S) == 0


def described(cluster: LocalCluster, transactional_id: str) -> Any:
    """A transaction as its coordinator tells it."""

    async def story() -> Any:
        async with Client(cluster.cluster()) as client:
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            answer = await client.coordinator("transaction", transactional_id, request)
            return answer.transaction_states[0]

    return asyncio.run(story())


def await_true(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def left(cluster: LocalCluster, commits: list[PreparedCommit], names: Names, *, does: bool = False) -> list[str]:
    """The topics in which transactions are committed that were let through, or would be."""

    async def story() -> list[str]:
        async with Client(cluster.cluster()) as client:
            found = await (finish if does else find_unfinished)(client, commits, names)
            return [each.topic for each in found.committed]

    return asyncio.run(story())


def seen(cluster: LocalCluster, name: str) -> int:
    """How many records consumers see that read what is committed."""
    return len(oracle.records(cluster.admin_bootstrap_servers, name)[0])


def test_a_commit_waits_before_it_is_decided_and_until_it_has_its_end(
    pair: Pair, mirror: Mirror, east: LocalCluster, west: LocalCluster
) -> None:
    """The source decides once the follower has all records, and its answer leaves once that has the end everywhere. If
    the source is lost between, the follower has all of the transaction, or none of it.
    """
    front, link, names = pair
    first, second = names
    at_west = partial(oracle.ends, west.admin_bootstrap_servers)
    producer = written(front.servers, *names)
    commit = Doing(lambda: producer.commit_transaction(TERM_S))
    with lanes(mirror, first, is_whole=True):
        await_true(lambda: at_west(first).high == RECORDS)
        await_held(front)
        assert (described(east, first).transaction_state, link.notes) == ("Ongoing", {})
        with lanes(mirror, second, is_whole=True):
            await_true(lambda: bool(link.notes))
            assert [at_west(name).high for name in names] == [RECORDS, RECORDS]
            assert described(east, first).transaction_state == "Ongoing"
        commits = list(link.notes.values())
        # Nobody here has seen anything of it yet: all of it would be aborted.
        assert left(west, commits, names) == []
        link.may_note.set()
        await_true(lambda: at_west(first).stable == RECORDS + 1)
        await_held(front)
        assert not commit.is_done
    assert (seen(west, first), seen(west, second)) == (RECORDS, 0)

    assert left(west, commits, names) == [second]
    assert left(west, commits, (first, second), does=True) == [second]

    assert (seen(west, first), seen(west, second)) == (RECORDS, RECORDS)
    # It is the source's, at its offset: whoever goes on finds nothing else.
    with lanes(mirror, first, second, is_whole=True):
        commit.result()
        await_true(lambda: not link.notes)
        # The next one of the same producer is another one: its partition is no part of what was committed.
        write(producer, second)
        await_true(lambda: at_west(second).high == 2 * RECORDS + 1)
        assert left(west, commits, names) == []
        producer.commit_transaction(TERM_S)
        assert seen(west, second) == 2 * RECORDS
    assert oracle.assert_same(east, west, second) == 2 * RECORDS


def asked(front: Running, transactional_id: str, producer_id: int, epoch: int) -> socket.socket:
    """A connection of a client that has asked a gateway for a commit (EndTxn in version 1)."""
    name = transactional_id.encode()
    body = struct.pack(f">hhihh{len(name)}sqh?", 26, 1, 7, -1, len(name), name, producer_id, epoch, True)
    connection = socket.create_connection((HOST, front.port), timeout=TERM_S)
    connection.sendall(struct.pack(">i", len(body)) + body)
    return connection


def answered(connection: socket.socket) -> int:
    """What it is answered."""
    with connection.makefile("rb") as reading:
        return int(struct.unpack(">iiih", reading.read(14))[3])


@pytest.mark.parametrize("leaves", [True, False])
def test_a_commit_that_was_given_up_does_not_commit_the_next_transaction(
    pair: Pair, mirror: Mirror, east: LocalCluster, leaves: bool
) -> None:
    """A client whose own time is over asks through another gateway, and goes on: what waits for it here still is not
    forwarded, whether it closed its connection or was cut off.
    """
    front, link, names = pair
    keeper = front.gateway.keeper
    assert keeper is not None
    # The other gateway has nothing to wait for.
    producer = written(east.bootstrap_servers, *names)
    state = described(east, names[0])
    with lanes(mirror, *names, is_whole=True):
        given_up = asked(front, names[0], state.producer_id, state.producer_epoch)
        await_true(lambda: bool(link.notes))
        since = time.monotonic()
        if leaves:
            given_up.close()
        producer.commit_transaction(TERM_S)
        write(producer, *names)
        await_true(lambda: time.monotonic() > since + GIVEN_UP_S)
        link.may_note.set()
        if leaves:
            await_true(lambda: not front.gateway.passages)
        else:
            assert answered(given_up) == codes.COORDINATOR_LOAD_IN_PROGRESS
            given_up.close()
        assert keeper.count_held() == {}
        # Some more of the same transaction.
        for name in names:
            producer.produce(name, b"more")
        assert producer.flush(TERM_S) == 0
        assert (described(east, names[0]).transaction_state, seen(east, names[0])) == ("Ongoing", RECORDS)
        producer.commit_transaction(TERM_S)
    oracle.await_decided(east.admin_bootstrap_servers, names[1])
    assert seen(east, names[1]) == 2 * RECORDS + 1


def test_a_commit_of_a_client_that_has_left_is_not_forwarded(pair: Pair, mirror: Mirror, east: LocalCluster) -> None:
    """However soon it could be: the client asks elsewhere, and its transaction is open until then."""
    front, link, names = pair
    producer = written(east.bootstrap_servers, *names)
    state = described(east, names[0])
    with lanes(mirror, *names, is_whole=True):
        left_behind = asked(front, names[0], state.producer_id, state.producer_epoch)
        await_true(lambda: bool(link.notes))
        left_behind.close()
        link.may_note.set()
        await_true(lambda: not front.gateway.passages)
        producer.produce(names[0], b"more")
        assert producer.flush(TERM_S) == 0
        assert described(east, names[0]).transaction_state == "Ongoing"
        producer.commit_transaction(TERM_S)
    oracle.await_decided(east.admin_bootstrap_servers, names[0])
    assert seen(east, names[0]) == RECORDS + 1


def test_a_transaction_that_the_follower_does_not_get_is_not_committed(pair: Pair, east: LocalCluster) -> None:
    """A follower that stands still: the application is told to abort, and goes on once the link is in sync."""
    front, link, names = pair
    link.settings = SyncSettings(lag_max_ms=500)
    producer = written(front.servers, *names)

    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(TERM_S)

    assert caught.value.args[0].txn_requires_abort()
    producer.abort_transaction(TERM_S)
    assert (link.gone, link.transactional) == ({}, Duty.REFUSE)
    oracle.await_decided(east.admin_bootstrap_servers, names[0])
    assert seen(east, names[0]) == 0


def test_only_what_is_proven_to_be_committed_is(west: LocalCluster, west_trusts: None, topic: Name) -> None:
    """Of the end of a transaction in another partition, whoever left the note and whenever."""
    names = topic("first"), topic("second")

    def noted(producer: int, *spans: tuple[int, int]) -> PreparedCommit:
        parts = [PreparedPart(TargetTopic(name), 0, *span) for name, span in zip(names, spans, strict=True)]
        return PreparedCommit(producer, tuple(parts))

    async def story(first: Log, second: Log) -> list[PreparedCommit]:
        found = []
        for producer, commit in ((1, True), (2, False)):
            spans = [(at, at + 1) for at in [await log.write(producer) for log in (first, second)]]
            await first.finish(producer, commit=commit)
            found.append(noted(producer, *spans))
        # Of this one not all is there.
        spans = [(at, at + 1) for at in [await log.write(3) for log in (first, second)]]
        await first.finish(3, commit=True)
        found.append(noted(3, spans[0], (spans[1][0], 1000)))
        # The note is about the former one, which has ended everywhere, and what is open is the next one.
        spans = [(at, at + 1) for at in [await log.write(4) for log in (first, second)]]
        for log in (first, second):
            await log.finish(4, commit=True)
        await second.write(4, sequence=1)
        found.append(noted(4, *spans))
        # It was aborted and has no record in the first one, where the next one of its producer was committed.
        end, at = await first.end(), await second.write(5)
        await first.write(5)
        await first.finish(5, commit=True)
        found.append(noted(5, (end - 1, end), (at, at + 1)))
        # Nothing has come of its end.
        found.append(noted(6, *[(at, at + 1) for at in [await log.write(6) for log in (first, second)]]))
        return found

    async def scenario() -> tuple[list[tuple[str, int]], list[int]]:
        async with Client(west.cluster()) as client:
            logs = [Log(client, name) for name in names]
            commits = await story(*logs)
            found = await finish(client, commits, names)
            assert await find_unfinished(client, commits, names) == ((), ())
            return [(each.topic, source_producer_id(each.producer_id)) for each in found.committed], [
                source_producer_id(each.producer_id) for each in await transactions_in(client, names[1:])
            ]

    for name in names:
        topics.create(west, name)

    assert asyncio.run(scenario()) == ([(names[1], 1)], [2, 3, 4, 5, 6])
