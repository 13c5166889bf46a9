"""Clients of a gateway in front of a follower whose link is SYNCING: they wait, as during an election, and go on."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.kinds import DeclarationDocument, Document, ReadableDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.declaration import SOURCE, TARGET, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import MODE, Author, change_registers
from testing.gateways.gateways import Running, gateway
from testing.gateways.moving import process
from testing.patience import TERM_S

pytestmark = pytest.mark.integration
OFTEN_PER_S: Final = 40
"""A consumer that waits sends some four requests a second; one that asks as fast as it is answered hundreds."""
KAFKA_PYTHON: Final = """
import sys
from kafka import KafkaConsumer
servers, group, *names = sys.argv[1:]
settings = {"bootstrap_servers": servers, "group_id": group, "auto_offset_reset": "earliest"}
for each in KafkaConsumer(*names, **settings):
    print(each.value.decode(), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """One that reads topics from the beginning, and what it has read until now."""

    name: str
    values: Callable[[], Collection[str]]


@contextmanager
def working(name: str, poll: Callable[[], Iterable[Any]], close: Callable[[], object]) -> Iterator[Reader]:
    """A client of this process, in a thread of its own."""
    found, is_over = set[str](), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            found.update((each.value() or b"").decode() for each in poll() if each.error() is None)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Reader(name, lambda: set(found))
    finally:
        is_over.set()
        thread.join(TERM_S)
        close()


@contextmanager
def librdkafka(servers: str, protocol: str, group: str, names: list[str]) -> Iterator[Reader]:
    """A member of a group."""
    settings = {"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(names)

    def poll() -> list[Any]:
        return [each for each in [consumer.poll(0.2)] if each is not None]

    with working(f"librdkafka, {protocol}", poll, consumer.close) as reader:
        yield reader


@contextmanager
def share_group(servers: str, group: str, names: list[str]) -> Iterator[Reader]:
    """A member of a share group of librdkafka."""
    from_the_beginning(servers, group)
    consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": group})
    consumer.subscribe(names)
    with working("librdkafka, share", lambda: consumer.poll(0.2), consumer.close) as reader:
        yield reader


def from_the_beginning(servers: str, group: str) -> None:
    """Have a share group begin with the first record."""
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(TERM_S)


@contextmanager
def aiokafka(servers: str, group: str, names: list[str]) -> Iterator[Reader]:
    """A member of a group."""
    found, is_over = set[str](), threading.Event()

    async def work() -> None:
        settings: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(*names, group_id=group, **settings) as consumer:
            while not is_over.is_set():
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.update(each.value.decode() for each in records)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield Reader("aiokafka", lambda: set(found))
    finally:
        is_over.set()
        thread.join(TERM_S)


@contextmanager
def printing(name: str, command: list[str], out: Path, environment: Any = None) -> Iterator[Reader]:
    """A client in a process of its own, which prints what it reads."""
    with process(command, out, environment):
        yield Reader(name, lambda: set(out.read_text().split()))


def java(servers: str, protocol: str, group: str, names: list[str]) -> tuple[str, list[str], Any]:
    """Kafka's console consumer."""
    jvm = jvm_for("tools-4.4.0")
    settings = f"group.protocol={protocol}", "auto.offset.reset=earliest"
    arguments = ["--bootstrap-server", servers, "--group", group, "--include", "|".join(names)]
    for each in settings:
        arguments += ["--consumer-property", each]
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return f"java, {protocol}", jvm.command(main, *arguments, heap_mb=128), jvm.environment


def java_share(servers: str, group: str, name: str) -> tuple[str, list[str], Any]:
    """Kafka's console consumer of a share group."""
    from_the_beginning(servers, group)
    jvm = jvm_for("tools-4.4.0")
    main = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    arguments = "--bootstrap-server", servers, "--group", group, "--topic", name
    return "java, share", jvm.command(main, *arguments, heap_mb=128), jvm.environment


def write(servers: str, topic: str, value: str) -> None:
    """Have the broker hold a record."""
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(TERM_S) == 0


def say(cluster: LocalCluster, document: Document) -> None:
    """Have the cluster's ledger hold this."""

    async def story() -> None:
        async with Client(cluster.cluster()) as client:
            await append_once(client, [document], replication_factor=1)

    asyncio.run(story())


def synchronous(cluster: LocalCluster, stem: str) -> DeclarationDocument:
    """A link into this cluster that is synchronous, of the topics whose names begin so."""

    async def story() -> str:
        async with Client(cluster.cluster()) as client:
            return (await describe_cluster(client)).cluster_id

    values = {
        SOURCE: {"cluster_id": "S", "alias": "source"},
        TARGET: {"cluster_id": asyncio.run(story()), "alias": cluster.name},
        attachment(NamespaceMap.parse(f"{stem}.")): True,
        MODE: SYNC,
    }
    registers = change_registers((), values, Author(by="anna", at_ms=1, where="S"))
    return DeclarationDocument(link=stem, cluster="S", registers=registers)


def await_values(readers: Collection[Reader], *values: str) -> None:
    """Wait until each of them has read all of these."""
    deadline = time.monotonic() + TERM_S
    while missing := {each.name: left for each in readers if (left := sorted(set(values) - set(each.values())))}:
        assert time.monotonic() < deadline, missing
        time.sleep(0.1)


def readers(servers: str, stem: str, names: list[str], folder: Path, stack: ExitStack) -> list[Reader]:
    """One of each kind, in a group of its own."""
    command = [sys.executable, "-c", KAFKA_PYTHON, servers, f"{stem}-python", *names]
    found = [
        librdkafka(servers, "classic", f"{stem}-classic", names),
        librdkafka(servers, "consumer", f"{stem}-consumer", names),
        share_group(servers, f"{stem}-share", names),
        aiokafka(servers, f"{stem}-aiokafka", names),
        printing("kafka-python", command, folder / f"{stem}-python.out"),
    ]
    for number, (name, line, environment) in enumerate(
        (
            java(servers, "classic", f"{stem}-java", names),
            java(servers, "consumer", f"{stem}-java-consumer", names),
            java_share(servers, f"{stem}-java-share", names[0]),
        )
    ):
        found.append(printing(name, line, folder / f"{stem}-java-{number}.out", environment))
    return [stack.enter_context(each) for each in found]


def requests(running: Running) -> int:
    """How many requests a gateway has had from all clients."""
    return sum(each.requests for each in running.gateway.figures().clients)


def test_consumers_wait(east: LocalCluster, topic: Callable[[str], str], tmp_path: Path) -> None:
    """Whichever client it is, and whether it has read before or begins now: what is hidden is not read, all else is,
    also of the same sessions and connections, and once it is shown again everybody goes on by himself. Nobody asks for
    it again and again meanwhile.
    """
    stem, mine, direct = topic("hidden"), topic("mine"), east.bootstrap_servers
    kept = f"{stem}.orders"
    creating = AdminClient({"bootstrap.servers": direct})
    for each in creating.create_topics([NewTopic(name, 1, 1) for name in (kept, mine)]).values():
        each.result(TERM_S)
    document = synchronous(east, stem)
    configuration = Configuration(clusters=(east.cluster(),), links=())
    with gateway(east.cluster(), configuration=configuration) as running, ExitStack() as stack:
        servers, hidden = running.servers, running.gateway.serving.hidden
        for name, value in ((kept, "h-0"), (mine, "m-0")):
            write(direct, name, value)
        before = readers(servers, f"{stem}-a", [kept, mine], tmp_path, stack)
        beside = [each for each in before if each.name != "java, share"]
        await_values(before, "h-0")
        await_values(beside, "m-0")

        say(east, document)
        deadline = time.monotonic() + TERM_S
        while not hidden:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        write(direct, kept, "h-1")
        after = readers(servers, f"{stem}-b", [kept, mine], tmp_path, stack)
        beside += [each for each in after if each.name != "java, share"]
        asked, since = requests(running), time.monotonic()
        for value in ("m-1", "m-2", "m-3"):
            write(direct, mine, value)
            await_values(beside, value)
        everybody = [*before, *after]
        assert {each.name: "h-1" in each.values() for each in everybody} == {each.name: False for each in everybody}
        assert not [each.name for each in after if "h-0" in each.values()]
        assert (requests(running) - asked) / (time.monotonic() - since) < OFTEN_PER_S * len(everybody)
        admin = AdminClient({"bootstrap.servers": servers})
        (partition,) = admin.list_topics(kept, timeout=TERM_S).topics[kept].partitions.values()
        assert (partition.leader, "LEADER_NOT_AVAILABLE" in str(partition.error)) == (-1, True)
        place = TopicPartition(kept, 0)
        with pytest.raises(Exception, match=r"(?i)leader|timed.?out"):
            admin.list_offsets({place: OffsetSpec.latest()}, request_timeout=2.0)[place].result(TERM_S)

        statement = declaration_of(stem, [document]).mode_said
        say(east, ReadableDocument(link=stem, said=statement, since_ms=1))
        await_values(everybody, "h-0", "h-1")
        write(direct, kept, "h-2")
        await_values(everybody, "h-2")
