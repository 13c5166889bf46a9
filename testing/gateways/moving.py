"""Clients of a gateway that write and read while they are moved to another cluster, and a copy of what they wrote."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.fabric.fabric import DeclaredLinks, Fabric
from isthmus.gateway.frames.serving import Serving
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.admin.reassignment import reassign
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.producers import active_producers
from isthmus.ledger.documents.kinds import MovableGatewayDocument, MoveDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.carriedproducers import CarriedProducer, CarriedProducers, carried_on
from isthmus.model.gateways.moves import Clients
from isthmus.model.gateways.producerids import cluster_tag
from isthmus.model.kafka.group import Committed
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.links.promotion import Promotion
from isthmus.model.namespace import NamespaceMap
from testing.gateways.gateways import Running
from testing.gateways.synchronous import lanes
from testing.patience import TERM_S
from testing.runs.mirror import Mirror
from testing.runs.running import patient
from testing.verbs import Promoter

PARTITIONS: Final = 3
A_SECOND: Final = 200


@dataclass(slots=True)
class Writer:
    """One that writes numbers from 0 on until it is told to end."""

    name: str
    acknowledged: Callable[[], list[int]]
    """The numbers that were acknowledged until now."""
    end: Callable[[], None]


@contextmanager
def librdkafka(servers: str, topic: str, *, name: str = "r") -> Iterator[Writer]:
    """An idempotent producer of librdkafka."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    acknowledged, is_over = list[int](), threading.Event()

    def told(error: object, message: Message) -> None:
        assert error is None, error
        acknowledged.append(int((message.value() or b"").split(b"-")[1]))

    def work() -> None:
        number = 0
        while not is_over.is_set():
            producer.produce(topic, f"{name}-{number}".encode(), partition=number % PARTITIONS, on_delivery=told)
            producer.poll(1 / A_SECOND)
            number += 1
        producer.flush(TERM_S)

    thread = threading.Thread(target=work)
    thread.start()

    def end() -> None:
        is_over.set()
        thread.join(TERM_S)

    try:
        yield Writer(name, lambda: acknowledged, end)
    finally:
        end()


@dataclass(slots=True)
class Reader:
    """One that reads a topic from the beginning, without a group."""

    name: str
    offsets: Callable[[], dict[int, list[int]]]
    """What it has read until now, by partition."""


@contextmanager
def librdkafka_reader(servers: str, topic: str) -> Iterator[Reader]:
    """A consumer of librdkafka."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found[message.partition() or 0].append(message.offset() or 0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Reader("librdkafka", lambda: found)
    finally:
        is_over.set()
        thread.join(TERM_S)
        consumer.close()


KAFKA_PYTHON_READER: Final = """
import sys
from kafka import KafkaConsumer, TopicPartition
servers, name = sys.argv[1], sys.argv[2]
consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
partitions = [TopicPartition(name, partition) for partition in range(3)]
consumer.assign(partitions)
consumer.seek_to_beginning(*partitions)
while True:
    for told in consumer.poll(100).values():
        for each in told:
            print("read", each.partition, each.offset, flush=True)
"""


@contextmanager
def kafka_python_reader(servers: str, topic: str, folder: Path) -> Iterator[Reader]:
    """A consumer of kafka-python, in a process of its own."""
    out = folder / "kafka-python-reader.out"

    def offsets() -> dict[int, list[int]]:
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for line in out.read_text().splitlines():
            if (match := re.fullmatch(r"read (\d+) (\d+)", line)) is not None:
                found[int(match[1])].append(int(match[2]))
        return found

    with process([sys.executable, "-c", KAFKA_PYTHON_READER, servers, topic], out):
        yield Reader("kafka-python", offsets)


def await_read(readers: Sequence[Reader], ends: Mapping[int, int]) -> None:
    """Wait until each of them has come to these ends."""
    deadline = time.monotonic() + TERM_S
    while missing := [
        f"{each.name}: {partition} up to {max(offsets, default=-1)} of {ends[partition]}"
        for each in readers
        for partition, offsets in each.offsets().items()
        if max(offsets, default=-1) + 1 < ends[partition]
    ]:
        assert time.monotonic() < deadline, missing
        time.sleep(0.1)


KAFKA_PYTHON: Final = """
import os, sys, threading, time
from kafka import KafkaProducer
servers, name = sys.argv[1], sys.argv[2]
# Two threads do.
say = lambda line: os.write(1, (line + "\\n").encode())
producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True, linger_ms=5)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
number = 0
while not ended.is_set():
    sent = producer.send(name, b"p-%d" % number, partition=number % 3)
    sent.add_callback(lambda _, which=number: say("acknowledged %d" % which))
    sent.add_errback(lambda error, which=number: say("failed %d %s" % (which, error)))
    number += 1
    time.sleep(1 / 200)
producer.flush(60)
"""


@contextmanager
def kafka_python(servers: str, topic: str, folder: Path) -> Iterator[Writer]:
    """An idempotent producer of kafka-python, in a process of its own."""
    out = folder / "kafka-python.out"
    with process([sys.executable, "-c", KAFKA_PYTHON, servers, topic], out) as running:

        def acknowledged() -> list[int]:
            lines = whole_lines(out)
            failed = [line for line in lines if line[:1] == ["failed"]]
            assert not failed, failed[:3]
            return [int(line[1]) for line in lines if line[:1] == ["acknowledged"]]

        def end() -> None:
            if running.stdin is not None:
                running.stdin.close()
            running.wait(TERM_S)

        yield Writer("p", acknowledged, end)


@contextmanager
def java(servers: str, topic: str, folder: Path) -> Iterator[Writer]:
    """Kafka's verifiable producer. It chooses partitions by itself, and has to be told to try again."""
    jvm, out, settings = jvm_for("tools-4.4.0"), folder / "java.out", folder / "producer.properties"
    settings.write_text("retries=2147483647\nenable.idempotence=true\n")
    command = jvm.command(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", servers, "--topic", topic, "--throughput", str(A_SECOND), "--acks", "-1"),
        *("--value-prefix", "7", "--command-config", str(settings)),
        heap_mb=128,
    )
    with process(command, out, jvm.environment) as running:

        def acknowledged() -> list[int]:
            found = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{") and "}" in line]
            assert [each for each in found if each["name"] == "producer_send_error"] == []
            sent = [each for each in found if each["name"] == "producer_send_success"]
            return [int(each["value"].split(".")[1]) for each in sent]

        def end() -> None:
            running.terminate()
            running.wait(TERM_S)

        yield Writer("7", acknowledged, end)


@contextmanager
def process(
    command: list[str], out: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own, which is killed in the end."""
    with (
        out.open("w") as opened,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=opened, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def whole_lines(out: Path) -> list[list[str]]:
    """The words of each line that a process has written as a whole."""
    return [line.split() for line in out.read_text().split("\n")[:-1] if line.strip()]


def await_more(writers: Sequence[Writer], count: int = 100) -> None:
    """Wait until so many more records of each of them are acknowledged."""
    before = [len(each.acknowledged()) for each in writers]
    deadline = time.monotonic() + TERM_S
    while min(len(each.acknowledged()) - so_far for each, so_far in zip(writers, before, strict=True)) < count:
        assert time.monotonic() < deadline, [len(each.acknowledged()) for each in writers]
        time.sleep(0.1)


@dataclass(slots=True)
class Judged:
    """What is wrong with what a writer wrote."""

    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    disordered: list[tuple[int, int]] = field(default_factory=list)


def judged(records: dict[int, list[tuple[bytes, int]]], writer: str, acknowledged: Iterable[int]) -> Judged:
    """What of a writer's records is lost, there twice, or before an earlier one of its partition."""
    found, prefix = Judged(), re.compile(rf"{writer}[-.](\d+)")
    counts = Counter[int]()
    for values in records.values():
        numbers = [int(match[1]) for each, _ in values if (match := prefix.fullmatch(each.decode()))]
        counts.update(numbers)
        found.disordered += [(one, other) for one, other in pairwise(numbers) if other < one]
    found.doubled = sorted(number for number, count in counts.items() if count > 1)
    found.lost = sorted(set(acknowledged) - set(counts))
    return found


def made(cluster: LocalCluster, name: str) -> None:
    """A topic."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    client.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TERM_S)


def linked_alike(name: str, *clusters: LocalCluster) -> tuple[Configuration, DeclaredLinks]:
    """A topic on all of these clusters, and a link that has it by the same name, from the first one to the second."""
    for cluster in clusters:
        made(cluster, name)
    found = tuple(cluster.cluster() for cluster in clusters)
    configuration = Configuration(clusters=found, links=(), timings=patient(calm_s=0.2))
    links, maps = Fabric(configuration).declarations, [NamespaceMap.parse(f"{name}:{name}", is_exact=True)]
    links.create(name, source=found[0].alias, target=found[1].alias, maps=maps)
    return configuration, links


def have_later_epochs(cluster: LocalCluster, name: str, count: int = 4) -> None:
    """Have the partitions of a topic of three brokers and one replica be in a later leader epoch, by moving them."""

    async def told(client: Client) -> list[PartitionState]:
        # A broker that lags knows no topic that was just created.
        while len(states := partitions_of(await client.metadata([name]))) < PARTITIONS:
            await asyncio.sleep(0.05)
        return list(states)

    async def work() -> None:
        async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
            # It tells of an earlier epoch, too, and of where a partition was then.
            while wanted := {
                (each.topic, each.partition): [each.leader % 3 + 1]
                for each in await told(client)
                if each.leader_epoch < count
            }:
                await reassign(client, wanted)
                while any(
                    [each.leader] != wanted.get((each.topic, each.partition), [each.leader])
                    for each in await told(client)
                ):
                    await asyncio.sleep(0.05)

    asyncio.run(work())


async def forget_moves(*clusters: LocalCluster) -> None:
    """Have later gateways serve the cluster that they are started for."""
    for cluster in clusters:
        async with Client(cluster.cluster()) as client:
            moves = await read_documents(client, kinds=[MoveDocument])
            if moves:
                await append_once(client, [Deletion(key) for key in moves], replication_factor=None)


def read_all(cluster: LocalCluster, topic: str) -> dict[int, list[tuple[bytes, int]]]:
    """All that a topic holds, by partition: values and timestamps."""
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "enable.auto.commit": False}
    )
    found: dict[int, list[tuple[bytes, int]]] = {}
    for partition in range(PARTITIONS):
        _, end = reader.get_watermark_offsets(TopicPartition(topic, partition), TERM_S)
        reader.assign([TopicPartition(topic, partition, 0)])
        values: list[tuple[bytes, int]] = []
        while len(values) < end:
            read = reader.consume(end - len(values), timeout=TERM_S)
            values += [(message.value() or b"", message.timestamp()[1]) for message in read]
        found[partition] = values
    reader.close()
    return found


def await_quiet(cluster: LocalCluster, topic: str) -> None:
    """Wait until nothing comes any more that is on its way."""
    reader = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge"})
    places, before = [TopicPartition(topic, partition) for partition in range(PARTITIONS)], list[object]()
    while (ends := [reader.get_watermark_offsets(place, TERM_S) for place in places]) != before:
        before = list(ends)
        time.sleep(0.5)
    reader.close()


def copy_missing(source: LocalCluster, target: LocalCluster, topic: str) -> None:
    """Have the target hold what the source holds beyond it, at the same offsets, as a link would."""
    there = {partition: len(values) for partition, values in read_all(target, topic).items()}
    producer = Producer({"bootstrap.servers": target.bootstrap_servers, "acks": "all"})
    for partition, values in read_all(source, topic).items():
        for value, timestamp in values[there[partition] :]:
            producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(TERM_S) == 0


def moved(
    running: Running, source: LocalCluster, target: LocalCluster, topic: str, *, stay: int, cuts: bool = False
) -> float:
    """Have the clients of a gateway go to another cluster, which then holds what the source has; for how long (s) no
    request passed. It may cut connections, and not wait for answers.
    """
    moving = _move(running, source, target, topic, stay, cuts=cuts)
    return asyncio.run_coroutine_threadsafe(moving, running.loop).result(TERM_S)


async def _move(
    running: Running, source: LocalCluster, target: LocalCluster, topic: str, stay: int, *, cuts: bool
) -> float:
    gateway, began = running.gateway, time.monotonic()
    gateway.fence(is_up=True)
    if cuts:
        for passage in list(gateway.passages):
            passage.abandon()
        await asyncio.to_thread(await_quiet, source, topic)
    while any(key not in (1, 11, 14, 78) for passage in gateway.passages for key in passage.owed):
        await asyncio.sleep(0.01)
    await asyncio.to_thread(copy_missing, source, target, topic)
    async with Client(source.cluster()) as client:
        leaders = {(each.topic, each.partition): each.leader for each in partitions_of(await client.metadata([topic]))}
        known = (await active_producers(client, leaders)).values
        ends = {key: log.end for key, log in (await log_ranges(client, leaders)).values.items()}
    client = Client(target.cluster())
    running.clients.append(client)
    found = await describe_cluster(client)
    told_now = [
        CarriedProducer(*key, each.producer_id, each.producer_epoch, each.last_sequence)
        for key, told in known.items()
        for each in told
    ]
    running.carried = carried_on(told_now, running.carried, stay - 1)
    serving = Serving(
        tag=cluster_tag(found.cluster_id),
        stay=stay,
        common=ends,
        carried=CarriedProducers(running.carried, stay=stay),
    )
    brokers = {node: (broker.host, broker.port) for node, broker in found.brokers.items()}
    gateway.turn(client, gateway.places, brokers, serving)
    return time.monotonic() - began


def reversed_with_lanes(
    configuration: Configuration,
    link: str,
    way_back: str,
    mirror: Mirror,
    *topics: str,
    clients: Clients = "force",
    timeout_s: float = TERM_S,
    at_step: Callable[[str], None] = lambda _: None,
) -> Promotion:
    """Reverse a link whose lanes run until it lets go of its topics."""
    with ExitStack() as running:
        running.enter_context(lanes(mirror, *topics))

        def on_step(step: str) -> None:
            if step == "detaching":
                running.close()
            at_step(step)

        promoter = Promoter(
            configuration=configuration, name=link, quiet_s=0.2, timeout_s=timeout_s, clients=clients, on_step=on_step
        )
        return asyncio.run(promoter.reverse(way_back))


def committed_records(cluster: LocalCluster, topic: str) -> dict[int, list[bytes]]:
    """What consumers at read_committed see of a topic, by partition."""
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "enable.auto.commit": False}
    )
    found: dict[int, list[bytes]] = {}
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition, 0)
        _, end = reader.get_watermark_offsets(place, TERM_S)
        reader.assign([place])
        values = found.setdefault(partition, [])
        deadline = time.monotonic() + TERM_S
        while max(reader.position([place])[0].offset, 0) < end:
            assert time.monotonic() < deadline, (topic, partition, reader.position([place]), end)
            values += [each.value() or b"" for each in reader.consume(500, timeout=0.2) if each.error() is None]
    reader.close()
    return found


async def committed_at(cluster: LocalCluster, group: str) -> Mapping[PartitionKey, Committed]:
    """What a cluster has of a group."""
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        answers: CommittedOffsets[str] = await committed_offsets(client, [group])
        return answers.all()[group]


async def await_gateway(cluster: LocalCluster) -> None:
    """Wait until a ledger knows of a gateway whose clients can be moved."""
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        while not await read_documents(client, kinds=[MovableGatewayDocument]):
            await asyncio.sleep(0.05)


def transactional(servers: str, name: str, **others: int) -> Producer:
    """A producer of this transactional id, at the next epoch."""
    settings: dict[str, str | int] = {"bootstrap.servers": servers, "transactional.id": name}
    settings |= {"transaction.timeout.ms": 600_000, "metadata.recovery.strategy": "none"}
    producer = Producer({**settings, **others})
    producer.init_transactions(TERM_S)
    return producer
