"""Topics made and filled for the tests, through librdkafka."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from isthmus.engine.same.filler import RECORDS_PER_BATCH, filler
from isthmus.kafka.batches.batch import HEADER_BYTES, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from isthmus.kafka.log.listoffsets import LATEST
from isthmus.kafka.log.produce import Append, post, version_for
from isthmus.local.probe import ask
from isthmus.model.cluster import ClientProperties, Cluster
from testing.patience import TERM_S

SEPTEMBER: Final = 1_725_000_000_000
"""A day long past, in ms."""


_WRITER: Final = 4711
Headers = list[tuple[str, str | bytes | None]]


class Brokers(Protocol):
    """A cluster, and the address at which everybody is a super user."""

    @property
    def admin_bootstrap_servers(self) -> str: ...
    def cluster(self) -> Cluster: ...


class Given(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


def as_admin(cluster: Brokers) -> Cluster:
    """How Isthmus reaches a cluster as a super user."""
    patient = ClientProperties(connection_setup_timeout_s=60.0)
    servers = tuple(cluster.admin_bootstrap_servers.split(","))
    return Cluster(alias="local", bootstrap_servers=servers, properties=patient)


def create(
    cluster: Brokers,
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    assigned: Sequence[list[int]] = (),
    **configs: object,
) -> None:
    """Create a topic; the dots of a config's name are written as underscores.

    `assigned` names the replicas of each partition, instead of how many there are.
    """
    # The records' timestamps are long past: nothing may be deleted for its age.
    settings = {"retention.ms": "-1", **{key.replace("_", "."): str(value) for key, value in configs.items()}}
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    if assigned:
        new = NewTopic(name, len(assigned), replica_assignment=list(assigned), config=settings)
    else:
        new = NewTopic(name, partitions, replicas, config=settings)
    deadline = time.monotonic() + TERM_S
    while True:
        try:
            admin.create_topics([new])[name].result(TERM_S)
            break
        except KafkaException as error:
            # Brokers that stood still are fenced for a moment.
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
    await_served(cluster, name, partitions=len(assigned) or partitions)


def await_served(cluster: Brokers, name: str, *, partitions: int = 1) -> None:
    """Wait until all brokers know as many partitions of the topic and its leaders serve them: they hear of it after
    the controller, and a broker names a new leader before that one takes requests.
    """
    deadline = time.monotonic() + TERM_S
    for port in _ports(cluster):
        while not _is_served(port, name, partitions):
            assert time.monotonic() < deadline, f"{name} is not served"
            time.sleep(0.01)


def _ports(cluster: Brokers) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in cluster.admin_bootstrap_servers.split(",")]


def _told(port: int, name: str) -> Any:
    """What one broker says of a topic."""
    wanted = MetadataRequest.MetadataRequestTopic(topic_id=None, name=name)
    return ask(port, MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), cluster="local")


def _is_served(port: int, name: str, partitions: int) -> bool:
    """Whether one broker knows the topic, and serves what it leads of it."""
    told = _told(port, name)
    (known,) = told.topics
    if (
        known.error_code
        or len(known.partitions) < partitions
        or any(partition.error_code for partition in known.partitions)
    ):
        return False
    ports = {broker.node_id: broker.port for broker in told.brokers}
    topic = ListOffsetsRequest.ListOffsetsTopic
    led = [
        topic.ListOffsetsPartition(partition_index=p.partition_index, current_leader_epoch=-1, timestamp=LATEST)
        for p in known.partitions
        if ports.get(p.leader_id) == port
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name=name, partitions=led)])
    answers = ask(port, request, cluster="local").topics
    return not any(answer.error_code for each in answers for answer in each.partitions)


def create_both(
    source: Brokers, target: Brokers, name: str, *, partitions: int = 1, replicas: int = 1, **configs: object
) -> None:
    """Create a topic alike on both sides."""
    for cluster in (source, target):
        create(cluster, name, partitions=partitions, replicas=replicas, assigned=(), **configs)


def names(cluster: Brokers) -> frozenset[str]:
    """The topics there are."""
    return frozenset(
        AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers}).list_topics(timeout=TERM_S).topics
    )


def delete(cluster: Brokers, name: str) -> None:
    """Delete a topic, and wait until no broker knows it: they hear of it after the controller."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    admin.delete_topics([name], operation_timeout=TERM_S)[name].result(TERM_S)
    deadline = time.monotonic() + TERM_S
    for port in _ports(cluster):
        while not _is_gone(port, name):
            assert time.monotonic() < deadline, f"{name} is still there"
            time.sleep(0.01)


def _is_gone(port: int, name: str) -> bool:
    """Whether one broker knows no such topic, nor has a log of it."""
    if _told(port, name).topics[0].error_code != UNKNOWN_TOPIC_OR_PARTITION:
        return False
    # It takes the topic out of what it tells first, and ends the log a moment later.
    topic = ListOffsetsRequest.ListOffsetsTopic
    part = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name=name, partitions=[part])])
    (answer,) = ask(port, request, cluster="local").topics[0].partitions
    return bool(answer.error_code)


def own_configs(cluster: Brokers, name: str) -> dict[str, str]:
    """What is set for a topic itself, as librdkafka is told by any broker, once all know the topic."""
    await_served(cluster, name)
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    return {
        key: entry.value
        for key, entry in future.result(TERM_S).items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def configure(cluster: Brokers, name: str, **configs: object) -> None:
    """Change configs of a topic. Brokers hear of it a moment later."""
    _alter(cluster, ConfigResource(ResourceType.TOPIC, name), configs)


def compact(cluster: Brokers, name: str) -> None:
    """Have a topic compacted, and wait until its brokers know; their own cleaner takes nothing meanwhile."""
    configure(cluster, name, cleanup_policy="compact", min_compaction_lag_ms=2**63 - 1)
    deadline = time.monotonic() + TERM_S
    while own_configs(cluster, name).get("cleanup.policy") != "compact":
        assert time.monotonic() < deadline


def configure_broker(cluster: Brokers, *, node_id: int = 1, **configs: object) -> None:
    """Change dynamic configs of a broker, the first one by default."""
    _alter(cluster, ConfigResource(ResourceType.BROKER, str(node_id)), configs)


def _alter(cluster: Brokers, resource: ConfigResource, configs: dict[str, object]) -> None:
    for key, value in configs.items():
        entry = ConfigEntry(key.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(TERM_S)


def delete_records(cluster: Brokers, name: str, before: int, *, partition: int = 0) -> None:
    """Raise the log start of a partition."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    where = TopicPartition(name, partition, before)
    for future in admin.delete_records([where], operation_timeout=TERM_S).values():
        future.result(TERM_S)


def producer(cluster: Brokers, **settings: object) -> Producer:
    """A librdkafka producer; the dots of a setting's name are written as underscores.

    Batches end when they are full or flushed, not when this machine pauses.
    """
    return Producer(
        {
            "bootstrap.servers": cluster.admin_bootstrap_servers,
            "linger.ms": 10_000,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def produce(cluster: Brokers, name: str, given: Iterable[Given], *, partition: int = 0, **settings: object) -> None:
    """Write records to one partition and wait until they are durable."""
    writing = producer(cluster, **settings)
    send(writing, name, given, partition=partition)
    flush(writing)


def send(writing: Producer, name: str, given: Iterable[Given], *, partition: int = 0) -> None:
    for record in given:
        writing.produce(
            name,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=record.headers,
            timestamp=record.timestamp,
            on_delivery=_delivered,
        )
        writing.poll(0)


def flush(writing: Producer) -> None:
    assert writing.flush(TERM_S) == 0, "records were not delivered"


def fill(cluster: Brokers, name: str, offsets: int, *, behind: int = 0, sequence: int | None = None) -> None:
    """Write that many records fast, from offset `behind` on; they are meant to be deleted. With a `sequence` of the
    first of them a producer wrote them.
    """
    writer = (-1, -1) if sequence is None else (_WRITER, 0)

    async def scenario() -> None:
        async with Client(as_admin(cluster)) as client:
            topic = (await client.metadata([name])).topics[name]
            connection = await client.connection(topic.partitions[0].leader)
            version = version_for(connection.api_versions)
            for begin in range(0, offsets, RECORDS_PER_BATCH):
                batch = filler(min(RECORDS_PER_BATCH, offsets - begin), SEPTEMBER)
                header = stamp(batch, *writer, -1 if sequence is None else sequence + begin)
                append = Append(name, topic.topic_id, 0, header, batch.view[HEADER_BYTES:])
                answers, _ = await post(connection, [append], version=version, timeout_ms=10_000, timeout_s=TERM_S)
                assert [answer.base_offset for answer in answers.values()] == [behind + begin]

    asyncio.run(scenario())


def _delivered(error: Any, _: Any) -> None:
    assert error is None, error


def some(count: int, random_source: random.Random, *, value_bytes: int = 60) -> list[Given]:
    """Records of every kind: with and without keys, tombstones, empty values, headers in order and repeated."""

    def one(index: int) -> Given:
        choose = random_source.random
        key = None if choose() < 0.2 else b"" if choose() < 0.1 else b"key-%d" % random_source.randrange(50)
        value = None if choose() < 0.1 else b"" if choose() < 0.1 else random_source.randbytes(value_bytes)
        headers: Headers = []
        if choose() < 0.4:
            headers = [("z", b"first"), ("a", None), ("z", b""), ("z", b"first"), ("ключ", b"%d" % index)]
        return Given(key, value, headers, SEPTEMBER + random_source.randrange(100_000) * 1000)

    return [one(index) for index in range(count)]
