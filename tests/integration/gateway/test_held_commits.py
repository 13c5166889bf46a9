"""Commits of transactions and of groups through a gateway are answered when the follower has what they are about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.producer import EndTxnRequest

from isthmus.errors import Unreachable
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous.unusable import LostNamespaces
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceMap
from testing.gateways.commits import Doing, await_held
from testing.gateways.gateways import Running, gateway
from testing.gateways.synchronous import Link, Links, lanes, synchronous
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration
Name = Callable[[str], str]
Pair = tuple[Running, Link, str]


@pytest.fixture
def pair(east: LocalCluster, west: LocalCluster, topic: Name) -> Iterator[Pair]:
    """A gateway, its link and a topic of two partitions on both sides."""
    name = topic("carried")
    topics.create_both(east, west, name, partitions=2)
    with synchronous(east, west, name) as (front, link):
        yield front, link, name


def begun(front: Running, name: str) -> Producer:
    """A producer in the middle of a transaction, with records in both partitions."""
    producer = Producer({"bootstrap.servers": front.servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TERM_S)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(name, b"%d" % partition, partition=partition)
    assert producer.flush(TERM_S) == 0
    return producer


def asked_again(front: Running, name: str) -> int:
    """Ask for the commit of a transaction that was decided, as a client does whose first answer never came."""

    async def story() -> int:
        async with Client(Cluster(alias="front", bootstrap_servers=(front.servers,))) as client:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            (state,) = (await client.coordinator("transaction", name, request)).transaction_states
            asking = EndTxnRequest(
                transactional_id=name,
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                committed=True,
                max_version=4,
            )
            return int((await client.coordinator("transaction", name, asking, timeout_s=TERM_S)).error_code)

    return asyncio.run(story())


def test_a_transaction_is_at_the_follower_when_it_is_committed(pair: Pair, mirror: Mirror, west: LocalCluster) -> None:
    """A commit is answered when all its partitions are there, and so is the same one asked for again."""
    front, _, name = pair
    producer = begun(front, name)
    first = Doing(lambda: producer.commit_transaction(TERM_S))
    await_held(front)
    again = Doing(lambda: asked_again(front, name))
    await_held(front, 2)
    assert (first.is_done, again.is_done) == (False, False)

    with lanes(mirror, name):
        first.result()
        ends = [oracle.ends(west.admin_bootstrap_servers, name, partition).high for partition in range(2)]
        assert again.result() == 0
        # The next one, as clients go on.
        producer.begin_transaction()
        producer.produce(name, b"2", partition=0)
        producer.commit_transaction(TERM_S)
        seen = [
            [each.value for each in part] for part in oracle.records(west.admin_bootstrap_servers, name, partitions=2)
        ]

    assert all(end >= 1 for end in ends)
    assert seen == [[b"0", b"2"], [b"1"]]


@pytest.mark.parametrize("was_transactional", [False, True])
def test_a_source_topic_that_is_made_anew(
    pair: Pair, mirror: Mirror, east: LocalCluster, west: LocalCluster, was_transactional: bool
) -> None:
    """Its partition ends with the end of a transaction, where the follower has something of the former topic, which may
    be such an end too: a commit is not answered for that.
    """
    front, link, name = pair
    with lanes(mirror, name):
        first = begun(front, name) if was_transactional else Producer({"bootstrap.servers": front.servers})
        for number in range(3):
            first.produce(name, b"former %d" % number, partition=0)
        if was_transactional:
            first.commit_transaction(TERM_S)
        assert first.flush(TERM_S) == 0
    former = oracle.ends(west.admin_bootstrap_servers, name).high
    topics.delete(east, name)
    topics.create(east, name, partitions=2)
    producer = Producer({"bootstrap.servers": front.servers, "transactional.id": f"{name}-anew", "linger.ms": 0})
    producer.init_transactions(TERM_S)
    producer.begin_transaction()
    for number in range(former - 1):
        producer.produce(name, b"new %d" % number, partition=0)

    producer.commit_transaction(TERM_S)

    assert oracle.ends(east.bootstrap_servers, name).high == former
    assert link.other == {(name, 0)}
    assert list(link.gone) == [(name, 0)]


def test_what_is_aborted_is_not_held(pair: Pair) -> None:
    """Without lanes a transaction is aborted all the same."""
    front, _, name = pair

    begun(front, name).abort_transaction(TERM_S)


def test_no_commit_while_out_of_sync(pair: Pair, east: LocalCluster) -> None:
    """A commit is refused, so that the client aborts, and goes on; nothing of it is visible at the source."""
    front, link, name = pair
    producer = begun(front, name)
    link.plain, link.transactional = Duty.LET_GO, Duty.REFUSE

    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(TERM_S)

    assert caught.value.args[0].txn_requires_abort()
    producer.abort_transaction(TERM_S)
    link.plain = link.transactional = Duty.PASS
    producer.begin_transaction()
    producer.produce(name, b"after", partition=0)
    producer.commit_transaction(TERM_S)
    oracle.await_decided(east.admin_bootstrap_servers, name)
    assert [each.value for each in oracle.records(east.admin_bootstrap_servers, name)[0]] == [b"after"]


def carry(cluster: LocalCluster, group: str, topic: str, offset: int) -> None:
    """Have a group be where a link would have carried it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    positions = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    admin.alter_consumer_group_offsets([positions])[group].result(TERM_S)


def test_a_position_is_at_the_follower_when_it_is_committed(pair: Pair, west: LocalCluster, topic: Name) -> None:
    """A group's commit is answered when the follower has the position, also where it goes back; a group that is not
    carried does not wait.
    """
    front, _, name = pair
    for group, is_held in ((name, True), (topic("own"), False)):
        consumer = Consumer({"bootstrap.servers": front.servers, "group.id": group, "enable.auto.commit": False})
        for offset in (7, 5):
            positions = [TopicPartition(name, 0, offset)]
            committing = Doing(partial(consumer.commit, offsets=positions, asynchronous=False))
            if is_held:
                await_held(front)
                assert not committing.is_done
                carry(west, group, name, offset)
            assert [each.error for each in committing.result()] == [None]
        consumer.close()


def test_a_position_that_does_not_come(pair: Pair) -> None:
    """Whoever commits is told soon that it is not there: the heartbeats behind it are not to wait."""
    front, _, name = pair
    committed = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            committed(
                name=name,
                partitions=[
                    committed.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=3, committed_leader_epoch=-1, committed_metadata=""
                    )
                ],
            )
        ],
        max_version=8,
    )

    async def story() -> int:
        async with Client(Cluster(alias="front", bootstrap_servers=(front.servers,))) as client:
            answer = await client.coordinator("group", name, request, timeout_s=TERM_S)
            return int(answer.topics[0].partitions[0].error_code)

    assert asyncio.run(story()) == 14


def test_positions_of_a_transaction(pair: Pair, mirror: Mirror, east: LocalCluster, west: LocalCluster) -> None:
    """A transaction that commits positions is committed when the follower has those too."""
    front, link, name = pair
    consumer = Consumer({"bootstrap.servers": front.servers, "group.id": name, "enable.auto.commit": False})
    parted = f"{name}-parted"
    link.parted_groups.add(parted)
    with lanes(mirror, name):
        producer = begun(front, name)
        producer.send_offsets_to_transaction([TopicPartition(name, 0, 1)], consumer.consumer_group_metadata(), TERM_S)
        committing = Doing(lambda: producer.commit_transaction(TERM_S))
        await_held(front)
        assert not committing.is_done
        carry(west, name, name, 1)
        committing.result()
        # Who goes on at the follower from a place of its own is in the way of nobody who asks again.
        carry(east, parted, name, 1)
        carry(west, parted, name, 0)
        assert asked_again(front, name) == 0
    consumer.close()


def test_a_commit_that_is_asked_for_again_while_something_is_lost(east: LocalCluster, topic: Name) -> None:
    """What was failed over of a link is in the way of who has written there, or commits positions, and of nobody else:
    what a decided transaction had is told by nobody, and who has written by the leaders.
    """
    lost, positions, own = topic("lost"), topic("positions"), topic("own")
    consumer = Consumer({"bootstrap.servers": east.bootstrap_servers, "group.id": positions})
    for name in (lost, positions, own):
        topics.create(east, name)
        producer = Producer({"bootstrap.servers": east.bootstrap_servers, "transactional.id": name})
        producer.init_transactions(TERM_S)
        producer.begin_transaction()
        producer.produce(name, b"value", partition=0)
        if name == positions:
            sent = [TopicPartition(lost, 0, 1)]
            producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), TERM_S)
        producer.commit_transaction(TERM_S)
    gone = LostNamespaces(Declaration(name="orders", registers=()), [NamespaceMap.parse(lost)])
    with gateway(east.cluster(), duties=Links([gone])) as front:
        assert asked_again(front, own) == 0
        for name in (lost, positions):
            with pytest.raises(Unreachable):
                asked_again(front, name)
    consumer.close()
