"""librdkafka through a gateway."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from isthmus.local import LocalCluster
from testing.gateways.gateways import Running, gateway
from testing.patience import TERM_S

pytestmark = pytest.mark.integration
Name = Callable[[str], str]


@pytest.fixture(scope="module")
def front(east: LocalCluster) -> Iterator[Running]:
    """A gateway in front of a cluster of one broker."""
    with gateway(east.cluster()) as running:
        yield running


def admin(front: Running) -> AdminClient:
    """An admin client of the gateway."""
    return AdminClient({"bootstrap.servers": front.servers})


def made(front: Running, name: str, partitions: int = 1) -> str:
    """A topic that has been created through the gateway."""
    client = admin(front)
    client.create_topics([NewTopic(name, partitions, 1)])[name].result(TERM_S)
    return name


def written(front: Running, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    """The offsets of these values in the first partition, in the order in which they were acknowledged."""
    producer = Producer({"bootstrap.servers": front.servers, **settings})
    offsets: list[int] = []

    def told(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset() or 0)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=told)
    assert producer.flush(TERM_S) == 0
    return offsets


def consumer(front: Running, group: str, **settings: Any) -> Consumer:
    """A member of a group that begins at the beginning."""
    return Consumer(
        {"bootstrap.servers": front.servers, "group.id": group, "auto.offset.reset": "earliest", **settings}
    )


def values_of(messages: list[Message]) -> list[bytes]:
    """What messages hold."""
    assert [message.error() for message in messages if message.error()] == []
    return [message.value() or b"" for message in messages]


@pytest.mark.parametrize("settings", [{"acks": "0"}, {"acks": "1"}, {"enable.idempotence": True}], ids=str)
def test_records_pass(front: Running, topic: Name, settings: dict[str, Any]) -> None:
    """What is written through a gateway is read through it, whatever the producer waits for."""
    name = made(front, topic("passed"))
    values = [b"%d" % number for number in range(500)]

    written(front, name, values, **settings)

    reader = consumer(front, name)
    reader.assign([TopicPartition(name, 0, 0)])
    assert values_of(reader.consume(len(values), timeout=TERM_S)) == values
    reader.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_of_a_group(front: Running, topic: Name, protocol: str) -> None:
    """Members of a group share the partitions of a topic, and whoever comes later goes on where they committed."""
    name = made(front, topic("shared"), 2)
    settings = {"group.protocol": protocol, "enable.auto.commit": False}
    members = [consumer(front, name, **settings) for _ in range(2)]
    for member in members:
        member.subscribe([name])
    while any(len(member.assignment()) != 1 for member in members):
        for member in members:
            member.poll(0.05)
    producer = Producer({"bootstrap.servers": front.servers})
    for partition in range(2):
        producer.produce(name, b"%d" % partition, partition=partition)
    assert producer.flush(TERM_S) == 0

    found = {value for member in members for value in values_of(member.consume(1, timeout=TERM_S))}
    for member in members:
        member.commit(asynchronous=False)
        member.close()

    assert found == {b"0", b"1"}
    later = consumer(front, name, **settings)
    assert [each.offset for each in later.committed([TopicPartition(name, 0), TopicPartition(name, 1)])] == [1, 1]
    later.close()


def test_transactions_with_positions(front: Running, topic: Name) -> None:
    """A committed transaction is read with the positions that were sent in it; an aborted one is neither."""
    source, target = made(front, topic("read")), made(front, topic("written"))
    written(front, source, [b"a", b"b"])
    reader = consumer(front, source, **{"enable.auto.commit": False})
    reader.subscribe([source])
    producer = Producer({"bootstrap.servers": front.servers, "transactional.id": target})
    producer.init_transactions(TERM_S)

    for value, is_committed in zip(values_of(reader.consume(2, timeout=TERM_S)), (True, False), strict=True):
        producer.begin_transaction()
        producer.produce(target, value)
        position = TopicPartition(source, 0, 1 if is_committed else 2)
        producer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), TERM_S)
        if is_committed:
            producer.commit_transaction(TERM_S)
        else:
            producer.abort_transaction(TERM_S)

    assert reader.committed([TopicPartition(source, 0)], TERM_S)[0].offset == 1
    reader.close()
    written(front, target, [b"end"])
    after = consumer(front, target, **{"isolation.level": "read_committed"})
    after.assign([TopicPartition(target, 0, 0)])
    assert values_of(after.consume(2, timeout=TERM_S)) == [b"a", b"end"]
    after.close()


def test_what_administrators_ask(front: Running, east: LocalCluster, topic: Name) -> None:
    """An admin client describes the cluster, topics, groups and settings, changes them, and is led to gateways only."""
    name = made(front, topic("described"), 2)
    client = admin(front)
    group = [ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 0)])]
    client.alter_consumer_group_offsets(group)[name].result(TERM_S)

    cluster = client.describe_cluster().result(TERM_S)
    assert cluster.cluster_id == east.cluster_id
    described = client.describe_consumer_groups([name])[name].result(TERM_S)
    named = [*cluster.nodes, *client.list_topics(name).brokers.values(), described.coordinator]
    assert {f"{node.host}:{node.port}" for node in named} == {front.servers}
    latest = client.list_offsets({TopicPartition(name, 0): OffsetSpec.latest()}, isolation_level=IsolationLevel(0))
    assert [each.result(TERM_S).offset for each in latest.values()] == [0]
    entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(TERM_S)
    # A broker hears of it a moment after the controller has it.
    deadline = time.monotonic() + TERM_S
    while client.describe_configs([resource])[resource].result(TERM_S)["retention.ms"].value != "12345":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.delete_consumer_groups([name])[name].result(TERM_S)
    client.delete_topics([name])[name].result(TERM_S)


def test_a_client_is_known_by_its_software(front: Running, topic: Name) -> None:
    """A gateway knows what its clients say that they are."""
    reader = consumer(front, topic("known"))
    deadline, known = time.monotonic() + TERM_S, set[str]()
    while known != {"confluent-kafka-python"}:
        assert time.monotonic() < deadline, known
        # librdkafka closes the connection that it began with, once it knows the brokers.
        reader.list_topics(timeout=TERM_S)
        known = {passage.conversation.software.name for passage in front.gateway.passages}
    reader.close()
