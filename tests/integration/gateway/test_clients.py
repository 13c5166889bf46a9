"""Other clients than librdkafka through a gateway: kafka-python, aiokafka, and share groups."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from isthmus.local import LocalCluster
from isthmus.model.gateways.producerids import is_tagged
from testing.gateways.gateways import Running, gateway, producers_of
from testing.patience import TERM_S

pytestmark = pytest.mark.integration
VALUES = [b"%d" % number for number in range(100)]

KAFKA_PYTHON = """
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
servers, name, acks = sys.argv[1], sys.argv[2], {"0": 0, "all": "all"}[sys.argv[3]]
producer = KafkaProducer(bootstrap_servers=servers, acks=acks, enable_idempotence=acks == "all")
for number in range(100):
    producer.send(name, b"%d" % number, partition=0)
producer.flush(60)
producer.close()
consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
consumer.assign([TopicPartition(name, 0)])
found = []
while len(found) < 100:
    found += [record.value for records in consumer.poll(1000).values() for record in records]
print(*[value.decode() for value in found])
"""
"""A process of its own: this one has other definitions of some messages, which kafka-python's clients do not read."""


@pytest.fixture(scope="module")
def front(east: LocalCluster) -> Iterator[Running]:
    """A gateway in front of a cluster of one broker."""
    with gateway(east.cluster()) as running:
        yield running


@pytest.fixture
def name(front: Running, topic: Callable[[str], str]) -> str:
    """A topic of one partition."""
    found, client = topic("clients"), AdminClient({"bootstrap.servers": front.servers})
    client.create_topics([NewTopic(found, 1, 1)])[found].result(TERM_S)
    return found


@pytest.mark.parametrize("acks", ["0", "all"])
def test_kafka_python(front: Running, east: LocalCluster, name: str, acks: str) -> None:
    """kafka-python writes and reads through a gateway; one that is idempotent has an id of no other cluster."""
    command = [sys.executable, "-c", KAFKA_PYTHON, front.servers, name, acks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TERM_S, check=False)

    assert done.stdout.encode().split() == VALUES, done.stderr[-2000:]
    assert [is_tagged(each) for each in producers_of(east, name)] == ([True] if acks == "all" else [])


def test_aiokafka(front: Running, east: LocalCluster, name: str) -> None:
    """aiokafka writes in a transaction, and reads as a member of a group; its coordinator knows the id that it has."""

    async def story() -> list[bytes]:
        settings: dict[str, Any] = {"bootstrap_servers": front.servers}
        async with AIOKafkaProducer(transactional_id=name, **settings) as producer, producer.transaction():
            for value in VALUES:
                await producer.send(name, value)
        settings |= {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        found: list[bytes] = []
        async with AIOKafkaConsumer(name, group_id=name, **settings) as consumer:
            async for record in consumer:
                found.append(record.value)
                if len(found) == len(VALUES):
                    return found
        return found

    assert asyncio.run(story()) == VALUES
    assert [is_tagged(each) for each in producers_of(east, name)] == [False]


def test_a_share_group(front: Running, name: str) -> None:
    """A member of a share group is handed what was written, and acknowledges it."""
    client = AdminClient({"bootstrap.servers": front.servers})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(TERM_S)
    producer = Producer({"bootstrap.servers": front.servers})
    for value in VALUES:
        producer.produce(name, value)
    assert producer.flush(TERM_S) == 0

    member = ShareConsumer({"bootstrap.servers": front.servers, "group.id": name})
    member.subscribe([name])
    found: list[bytes] = []
    while len(found) < len(VALUES):
        found += (message.value() or b"" for message in member.poll(1.0))
    member.close()
    assert found == VALUES
