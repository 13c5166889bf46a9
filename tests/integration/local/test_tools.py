"""Kafka's own tools run against local clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_consumer_reads(east: LocalCluster, topic: Callable[[str], str], codec: str) -> None:
    """The console consumer prints key, headers, offset and value of what librdkafka wrote."""
    name = topic(codec)
    servers = ("--bootstrap-server", east.bootstrap_servers)
    created = kafka_tool("org.apache.kafka.tools.TopicCommand", *servers, "--create", "--topic", name)
    assert created.returncode == 0, created.stderr
    producer = Producer({"bootstrap.servers": east.bootstrap_servers, "compression.type": codec})
    producer.produce(name, b"value" * 100, key=b"key", headers={"h": b"x"})
    assert producer.flush(TERM_S) == 0
    printed = ("key", "headers", "offset")
    shown = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*servers, "--topic", name, "--partition", "0", "--offset", "earliest", "--max-messages", "1"),
        *(argument for what in printed for argument in ("--formatter-property", f"print.{what}=true")),
    )
    assert shown.stdout.split("\t") == ["Offset:0", "h:x", "key", "value" * 100 + "\n"]
