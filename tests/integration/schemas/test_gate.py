"""No record becomes visible before its schema is in the registry there."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.local import LocalCluster
from isthmus.local.apicurio import ApicurioServer
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.loop import LoopState
from testing.brokers.proxy import Proxy
from testing.records import topics
from testing.records.schemas import record
from testing.records.topics import Given
from testing.runs.running import Running, ends, running

pytestmark = pytest.mark.integration

RECORDS: Final = 20


class Reader(threading.Thread):
    """A consumer at the target that reads every value with its registry the moment it sees it, and asks only once."""

    def __init__(self, cluster: LocalCluster, topic: str, registry: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[object] = []
        self.failures: list[str] = []
        self.is_over = False
        self._cluster, self._topic, self._registry = cluster, topic, registry

    def run(self) -> None:
        settings = {"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": self._topic}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        context = SerializationContext(self._topic, MessageField.VALUE)
        with SchemaRegistryClient({"url": self._registry}) as client:
            while not self.is_over:
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                try:
                    self.seen.append(AvroDeserializer(client)(message.value(), context))
                except Exception as error:  # noqa: BLE001 - whatever it is, the schema was not there
                    self.failures.append(str(error))
        consumer.close()


def configured(
    east: LocalCluster, west: LocalCluster, registries: tuple[str, str], gated: str, free: str, kind: str
) -> Configuration:
    """A link or a tree of two topics, of which one waits for schemas; registries are compared once an hour."""
    copiers = {
        "links": [{"name": gated, "source": "east", "target": "west", "topics": {"include": [gated, free]}}],
        "trees": [{"name": gated, "clusters": ["east", "west"], "topics": [gated, free]}],
    }
    file = {
        "clusters": {
            "east": {"bootstrap_servers": east.bootstrap_servers, "schema_registry": {"url": registries[0]}},
            "west": {"bootstrap_servers": west.bootstrap_servers, "schema_registry": {"url": registries[1]}},
        },
        kind: copiers[kind],
        "schemas": {"primary": "east", "interval_s": 3600, "gate": {"values": [gated]}},
    }
    return config.parse(json.dumps(file))


def write(cluster: LocalCluster, registered: SchemaRegistryClient, gated: str, free: str, fields: int) -> None:
    """Register one more version, and write some records with it, and as many without any elsewhere."""
    text = record(gated.replace("-", "_"), *(f"f{n}" for n in range(fields)))
    registered.register_schema(f"{gated}-value", Schema(text, "AVRO"))
    # Not the latest version: the client remembers which one that was.
    writer = AvroSerializer(registered, text, conf={"auto.register.schemas": False, "use.latest.version": False})
    context = SerializationContext(gated, MessageField.VALUE)
    writing = topics.producer(cluster)
    for number in range(RECORDS):
        value = writer({f"f{n}": f"{number}" for n in range(fields)}, context)
        topics.send(writing, gated, [Given(None, value, [], topics.SEPTEMBER)])
        topics.send(writing, free, [Given(None, b"plain", [], topics.SEPTEMBER)])
    topics.flush(writing)


@pytest.mark.parametrize("kind", ["links", "trees"])
def test_no_record_comes_before_its_schema(
    east: LocalCluster,
    west: LocalCluster,
    east_registry: ApicurioServer,
    west_registry: ApicurioServer,
    topic: Callable[[str], str],
    spark: SparkSession,
    kind: str,
) -> None:
    """Records wait for schemas that nobody has distributed yet, and for a registry that is away; other topics do not.

    Whoever reads at the target finds every schema at once, also with an interval of an hour between comparisons.
    """
    gated, free = topic("gated"), topic("free")
    for name in (gated, free):
        topics.create(east, name)
    (port,) = free_ports(1)
    upstream = urlsplit(west_registry.url).port or 0
    registries = east_registry.url, west_registry.url.replace(f":{upstream}", f":{port}")
    configuration = configured(east, west, registries, gated, free, kind)
    reader, total = Reader(west, gated, west_registry.url), 0

    def produce(registered: SchemaRegistryClient, fields: int) -> None:
        nonlocal total
        write(east, registered, gated, free, fields)
        total += RECORDS

    async def has(name: str, count: int) -> bool:
        return (await ends(west, name))[0] >= count

    def is_held(run: Running) -> bool:
        found = run.topic(gated)
        loops = {loop.loop: loop for link in run.links if link.target == "west" for loop in link.loops}
        return (
            found is not None
            and found.state is LaneState.BLOCKED
            and found.problem is not None
            and "wait for schema" in found.problem.message
            and loops["schemas"].state is LoopState.IN_ERROR
        )

    async def scenario() -> None:
        with SchemaRegistryClient({"url": east_registry.url}) as registered:
            async with running(configuration, spark) as run:
                with Proxy(port, upstream):
                    reader.start()
                    produce(registered, 1)
                    await run.until(lambda: has(gated, total))
                    # A version that comes later is distributed at once, as a lane waits for it.
                    produce(registered, 2)
                    await run.until(lambda: has(gated, total))
                before = total
                produce(registered, 3)
                await run.until(lambda: has(free, total))
                await run.until(partial(is_held, run))
                assert (await ends(west, gated))[0] == before
                with Proxy(port, upstream):
                    await run.until(lambda: has(gated, total))
                    await run.until(lambda: run.state_of(gated) is LaneState.ACTIVE)
                    await run.until(lambda: len(reader.seen) + len(reader.failures) >= total)
                    assert (await run.end_well()).exit_code == 0

    try:
        asyncio.run(scenario())
    finally:
        reader.is_over = True
    assert reader.failures == []
    assert [len(value) for value in reader.seen if isinstance(value, dict)] == [
        n for n in (1, 2, 3) for _ in range(RECORDS)
    ]
