"""A gateway in front of several brokers: each has its port, and those that go and come again are followed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.errors import PlanRefused
from isthmus.local import LocalCluster
from testing.gateways.gateways import HOST, Running, gateway
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def front(east3: LocalCluster) -> Iterator[Running]:
    """A gateway in front of three brokers, with a port more than there are."""
    with gateway(east3.cluster(), size=4) as running:
        yield running


def test_leaders_are_reached_while_a_broker_is_away(
    east3: LocalCluster, front: Running, topic: Callable[[str], str]
) -> None:
    """Clients that know the gateway's ports only read and write while leaders move and a broker dies and comes back, by
    whichever port they begin; no record is lost or out of order.
    """
    name = topic("moved")
    servers = ",".join(f"{HOST}:{front.port + index}" for index in (3, 1))
    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([NewTopic(name, 3, 3)])[name].result(TERM_S)
    nodes = client.list_topics(name, timeout=TERM_S).brokers
    assert {node: f"{broker.host}:{broker.port}" for node, broker in nodes.items()} == {
        node: f"{HOST}:{front.port + node - 1}" for node in (1, 2, 3)
    }
    producer, acknowledged = Producer({"bootstrap.servers": servers, "enable.idempotence": True}), list[bytes]()

    def told(error: object, message: Message) -> None:
        assert error is None
        acknowledged.append(message.value() or b"")

    def write(first: int) -> None:
        for number in range(first, first + 300):
            producer.produce(name, b"%d" % number, partition=number % 3, on_delivery=told)
        assert producer.flush(TERM_S) == 0

    write(0)
    east3.broker(2).kill()
    try:
        write(300)
        gone = AdminClient({"bootstrap.servers": f"{HOST}:{front.port + 1}"})
        assert gone.list_topics(name, timeout=TERM_S).topics[name].error is None
    finally:
        east3.broker(2).start()
    write(600)

    reader = Consumer({"bootstrap.servers": servers, "group.id": name})
    for partition in range(3):
        reader.assign([TopicPartition(name, partition, 0)])
        found = [int(message.value() or b"") for message in reader.consume(300, timeout=TERM_S)]
        assert found == list(range(partition, 900, 3))
    reader.close()


def test_bad_input_is_refused_before_a_real_broker(front: Running, topic: Callable[[str], str]) -> None:
    """What is no Kafka, and what does not pass, ends its own connection; whoever writes meanwhile is not disturbed."""
    bad = (
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 0x7FFFFFFF) + bytes(100),
        struct.pack(">ihhih", 10, 17, 0, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 1, 17, 1, -1),
    )
    name, client = topic("calm"), AdminClient({"bootstrap.servers": front.servers})
    client.create_topics([NewTopic(name, 1, 1)])[name].result(TERM_S)
    producer, offsets = Producer({"bootstrap.servers": front.servers}), list[int]()

    def told(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset() or 0)

    for sent in bad * 10:
        producer.produce(name, b"value", on_delivery=told)
        with socket.create_connection((HOST, front.port)) as sock:
            sock.settimeout(TERM_S)
            try:
                sock.sendall(sent)
                assert sock.recv(1) == b""
            except ConnectionError:
                pass
    assert producer.flush(TERM_S) == 0
    assert offsets == list(range(len(bad) * 10))


def test_a_range_that_is_too_small(east3: LocalCluster) -> None:
    """Three brokers need three ports."""
    with pytest.raises(PlanRefused, match="ids from 1 to 3"), gateway(east3.cluster(), size=2):
        pass
