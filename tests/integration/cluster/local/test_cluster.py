"""A local cluster serves clients, survives what is done to its brokers, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.cluster.local import LocalCluster

pytestmark = pytest.mark.integration


def test_serves_an_independent_client(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """A record written through librdkafka is read back by it."""
    name = topic("greetings")
    admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    producer = Producer({"bootstrap.servers": east.bootstrap_servers})
    producer.produce(name, b"hello")
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": east.bootstrap_servers,
            "group.id": name,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    record = consumer.poll(20)
    consumer.close()
    assert record is not None
    assert record.value() == b"hello"
