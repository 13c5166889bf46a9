"""Kafka's own programs through a gateway: tools of two releases, and Kafka Streams, exactly once."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.local.locks import LockName
from isthmus.local.tools import kafka_tool
from isthmus.model.gateways.producerids import is_tagged
from testing.gateways.gateways import Running, gateway, producers_of
from testing.gateways.synchronous import lanes, synchronous
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration
TOOLS: Final = "org.apache.kafka.tools"
RECORDS: Final = 300
WORDS: Final = ("harbour", "canal", "lock", "strait", "isthmus")
WORD_COUNT: Final = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
PLAINTEXT, COUNTS = "streams-plaintext-input", "streams-wordcount-output"
"""The names that the example has."""


@pytest.fixture
def front(east: LocalCluster) -> Iterator[Running]:
    """A gateway in front of a cluster of one broker."""
    with gateway(east.cluster()) as running:
        yield running


def tool(release: LockName, main_class: str, *arguments: str) -> list[str]:
    """What a tool printed, by lines; it has to end well."""
    done = kafka_tool(f"{TOOLS}.{main_class}", *arguments, of=release)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def events(lines: Sequence[str]) -> list[dict[str, object]]:
    """What a tool that prints JSON has told."""
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def values(servers: str, topic: str) -> list[str]:
    """All that readers of committed records see in a topic, up to its end."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "-", "isolation.level": "read_committed"})
    partitions = [TopicPartition(topic, each, 0) for each in consumer.list_topics(topic).topics[topic].partitions]
    ends = [consumer.get_watermark_offsets(each)[1] for each in partitions]
    consumer.assign(partitions)
    found: list[str] = []
    deadline = time.monotonic() + TERM_S
    while any(at.offset < end for at, end in zip(consumer.position(partitions), ends, strict=True) if end):
        assert time.monotonic() < deadline
        found += [(message.value() or b"").decode() for message in consumer.consume(500, 0.2) if not message.error()]
    consumer.close()
    return found


@pytest.mark.parametrize("release", ["tools-3.9.1", "tools-4.4.0"])
def test_tools_of_a_release(front: Running, east: LocalCluster, topic: Callable[[str], str], release: LockName) -> None:
    """The verifiable producer and consumer, the performance tools (the producer is idempotent, with an id of no other
    cluster), the console's consumer, and the copier that aborts at random, of the last release that knew ZooKeeper and
    of a new one.
    """
    name, copies = topic("tools"), topic("tools-copies")
    for each in (name, copies):
        topics.create(east, each)
    where, at = ("--bootstrap-server", front.servers), ("--topic", name)

    count = str(RECORDS)
    told = events(tool(release, "VerifiableProducer", *where, *at, "--max-messages", count, "--acks", "-1"))
    assert Counter(each["name"] for each in told)["producer_send_success"] == RECORDS, told
    member = ("--group-id", name, "--max-messages", count, "--reset-policy", "earliest")
    told = events(tool(release, "VerifiableConsumer", *where, *at, *member))
    assert [each["success"] for each in told if each["name"] == "offsets_committed"].count(False) == 0
    assert sum(int(str(each["count"])) for each in told if each["name"] == "records_consumed") == RECORDS

    properties = ("--producer-props", f"bootstrap.servers={front.servers}", "acks=all")
    what = ("--num-records", count, "--record-size", "100", "--throughput", "-1")
    assert f"{count} records sent" in "\n".join(tool(release, "ProducerPerformance", *at, *what, *properties))
    ids = producers_of(east, name)
    assert {is_tagged(each) for each in ids} == {True}
    read = tool(release, "ConsumerPerformance", *where, *at, "--messages", str(2 * RECORDS))
    assert int(float(read[-1].split(",")[4])) == 2 * RECORDS, read
    until = ("--from-beginning", "--max-messages", str(2 * RECORDS))
    assert len(tool(release, "consumer.ConsoleConsumer", *where, *at, *until)) == 2 * RECORDS

    whose = ("--transactional-id", copies, "--consumer-group", copies, "--transaction-size", "20")
    ways = ("--input-topic", name, "--input-partition", "0", "--output-topic", copies, "--enable-random-aborts")
    tool(release, "TransactionalMessageCopier", "--broker-list", front.servers, *ways, *whose)
    assert values(east.bootstrap_servers, copies) == values(east.bootstrap_servers, name)


def test_a_copier_before_a_synchronous_link(
    east: LocalCluster, west: LocalCluster, mirror: Mirror, topic: Callable[[str], str]
) -> None:
    """Kafka's transactional copier, whose commits are held until the follower has them: each record is there once, and
    the follower's readers see what the source's see as soon as it has ended.
    """
    name, copies = topic("carried"), topic("carried-copies")
    for each in (name, copies):
        topics.create_both(east, west, each)
    producer = Producer({"bootstrap.servers": east.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number)
    assert producer.flush(TERM_S) == 0
    with synchronous(east, west, copies) as (front, link), lanes(mirror, copies):
        whose = ("--transactional-id", copies, "--consumer-group", copies, "--transaction-size", "20")
        ways = ("--input-topic", name, "--input-partition", "0", "--output-topic", copies, "--enable-random-aborts")
        tool("tools-4.4.0", "TransactionalMessageCopier", "--broker-list", front.servers, *ways, *whose)
        assert values(west.bootstrap_servers, copies) == [str(number) for number in range(RECORDS)]
        assert link.gone == {}


@contextmanager
def word_count(front: Running, folder: Path, protocol: str) -> Iterator[subprocess.Popen[bytes]]:
    """Kafka Streams' example, exactly once, which is killed in the end."""
    settings = {
        "bootstrap.servers": front.servers,
        "application.id": f"word-count-{protocol}",
        "group.protocol": protocol,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
        "state.dir": folder / "state",
        "session.timeout.ms": 6000,
        "replication.factor": 1,
    }
    file = folder / "streams.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    jvm = jvm_for("streams-4.3.1")
    command = jvm.command(WORD_COUNT, str(file), heap_mb=256)
    with (
        (folder / "streams.out").open("ab") as out,
        subprocess.Popen(command, env=jvm.environment, stdout=out, stderr=subprocess.STDOUT) as running,
    ):
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_words_are_counted_once(front: Running, east: LocalCluster, tmp_path: Path, protocol: str) -> None:
    """Kafka Streams' word count with `exactly_once_v2`, killed in the middle and started again: all words are counted,
    and none twice.
    """
    admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
    for future in admin.create_topics([NewTopic(PLAINTEXT, 2, 1), NewTopic(COUNTS, 1, 1)]).values():
        future.result(TERM_S)
    try:
        producer = Producer({"bootstrap.servers": front.servers})
        with word_count(front, tmp_path, protocol):
            write(producer, 100)
            await_counts(east, 100, tmp_path)
            write(producer, 200)
        with word_count(front, tmp_path, protocol):
            await_counts(east, 300, tmp_path)
    finally:
        for future in admin.delete_topics([PLAINTEXT, COUNTS]).values():
            future.result(TERM_S)


def write(producer: Producer, lines: int) -> None:
    """So many lines of all words."""
    for number in range(lines):
        producer.produce(PLAINTEXT, " ".join(WORDS), partition=number % 2)
    assert producer.flush(TERM_S) == 0


def await_counts(east: LocalCluster, each: int, folder: Path) -> None:
    """Wait until each word was counted so often, and see that no count up to there was told twice."""
    deadline = time.monotonic() + TERM_S
    while True:
        told = counts(east)
        if all(found[-1:] == [each] for found in (told[word] for word in WORDS)):
            break
        assert time.monotonic() < deadline, f"{told}\n{(folder / 'streams.out').read_text()[-3000:]}"
        time.sleep(0.5)
    assert all(found == sorted(set(found)) for found in told.values()), told


def counts(east: LocalCluster) -> dict[str, list[int]]:
    """The counts of each word, in the order in which they were committed."""
    read = kafka_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", east.bootstrap_servers, "--topic", COUNTS, "--from-beginning"),
        *("--isolation-level", "read_committed", "--timeout-ms", "3000"),
        *("--formatter-property", "print.key=true"),
        *("--formatter-property", "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"),
    )
    found: dict[str, list[int]] = {word: [] for word in WORDS}
    for word, count in re.findall(r"^(\w+)\t(\d+)$", read.stdout, re.MULTILINE):
        found[word].append(int(count))
    return found
