"""Acknowledgements through a gateway are given when the follower has what they acknowledge, and not before."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from isthmus.gateway.frames.duties import Duty
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.gateways.synchrony import SyncSettings
from testing.gateways.gateways import Running
from testing.gateways.synchronous import Link, lanes, synchronous
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration
Name = Callable[[str], str]
COUNT = 200
SHORT_MS = 1_000


@pytest.fixture
def pair(east: LocalCluster, west: LocalCluster, topic: Name) -> Iterator[tuple[Running, Link, str]]:
    """A gateway, its link and a topic of two partitions on both sides."""
    name = topic("held")
    topics.create_both(east, west, name, partitions=2)
    with synchronous(east, west, name, away=[f"{name}-away"]) as (front, link):
        yield front, link, name


class Writer:
    """A producer that asks the follower, as each acknowledgement comes, whether it has the record."""

    def __init__(self, servers: str, follower: LocalCluster, **settings: Any) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, **settings})
        # A consumer, because it asks for high watermarks.
        self._asking = Consumer({"bootstrap.servers": follower.bootstrap_servers, "group.id": "asking"})
        self.offsets: list[int] = []
        self.missing: list[int] = []
        self.errors: list[int] = []

    def write(self, topic: str, count: int, *, begin: int = 0) -> None:
        """Write records without waiting for them."""
        for number in range(begin, begin + count):
            self._producer.produce(topic, b"%d" % number, partition=0, on_delivery=self._told)
            self._producer.poll(0)

    def flush(self, timeout_s: float = TERM_S) -> int:
        """Wait for answers; how many are left."""
        return self._producer.flush(timeout_s)

    def close(self) -> None:
        """No more is asked."""
        self._asking.close()

    def leave(self) -> None:
        """Be gone, whatever has not been answered."""
        self.close()
        self._producer.purge()
        del self._producer

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.code())
            return
        offset = message.offset() or 0
        self.offsets.append(offset)
        where = TopicPartition(message.topic() or "", message.partition() or 0)
        _, end = self._asking.get_watermark_offsets(where, timeout=TERM_S, cached=False)
        if end <= offset:
            self.missing.append(offset)


def values(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    """What is in the first partition."""
    return [each.value for each in oracle.records(cluster.admin_bootstrap_servers, topic)[0]]


def await_held(front: Running, writer: Writer) -> None:
    """Wait until an answer to what was written is held."""
    assert front.gateway.keeper is not None
    deadline = time.monotonic() + TERM_S
    while not front.gateway.keeper.count_held():
        assert time.monotonic() < deadline
        writer.flush(0.05)


def test_an_acknowledgement_is_at_the_follower(
    pair: tuple[Running, Link, str], mirror: Mirror, west: LocalCluster
) -> None:
    """librdkafka is told of each record when the follower has it; nothing is held any more then."""
    front, link, name = pair
    writer = Writer(front.servers, west, **{"enable.idempotence": True})
    with lanes(mirror, name):
        writer.write(name, COUNT)
        assert writer.flush() == 0
    writer.close()

    assert (writer.offsets, writer.missing, writer.errors) == (list(range(COUNT)), [], [])
    assert front.gateway.keeper is not None
    assert front.gateway.keeper.count_held() == {}
    assert link.gone == {}


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_nothing_is_acknowledged_while_the_follower_stands_still(
    pair: tuple[Running, Link, str], mirror: Mirror, east: LocalCluster, west: LocalCluster, is_idempotent: bool
) -> None:
    """Without lanes no answer comes; an idempotent producer that asks again doubles nothing; once lanes run, all is
    acknowledged.
    """
    front, _, name = pair
    # Its requests expire while they are held: it is told so before, and sends them again.
    impatient = {"request.timeout.ms": SHORT_MS, "retry.backoff.ms": 100} if is_idempotent else {}
    writer = Writer(front.servers, west, **{"enable.idempotence": is_idempotent, **impatient})
    writer.write(name, 20)

    assert writer.flush(2 * SHORT_MS / 1000) > 0
    assert (writer.offsets, writer.errors) == ([], [])
    await_held(front, writer)
    with lanes(mirror, name):
        assert writer.flush() == 0
    writer.close()

    assert (len(writer.offsets), writer.missing, writer.errors) == (20, [], [])
    assert values(east, name) == [b"%d" % number for number in range(20)]


def test_a_link_that_lets_go(pair: tuple[Running, Link, str], west: LocalCluster) -> None:
    """A follower that stands still for too long is waited for no more, and the first offset that it may lack is known
    before the answer comes; commits of transactions are refused then, plain writes pass.
    """
    front, link, name = pair
    link.settings = SyncSettings(lag_max_ms=SHORT_MS + 500)
    # What it waits for ends before the follower may be late, again and again.
    impatient = {"enable.idempotence": True, "request.timeout.ms": SHORT_MS, "retry.backoff.ms": 100}
    writer = Writer(front.servers, west, **impatient)
    writer.write(name, 3)

    assert writer.flush() == 0
    assert link.gone == {(name, 0): 0}
    writer.write(name, 3, begin=3)
    assert writer.flush() == 0
    writer.close()
    assert (sorted(writer.offsets), sorted(writer.missing)) == (list(range(6)), list(range(6)))

    within = Producer(
        {"bootstrap.servers": front.servers, "transactional.id": name, "transaction.timeout.ms": 2000, "retries": 1}
    )
    within.init_transactions(TERM_S)
    within.begin_transaction()
    within.produce(name, b"refused", partition=1)
    within.flush(TERM_S)
    with pytest.raises(KafkaException) as found:
        within.commit_transaction(TERM_S)
    assert found.value.args[0].txn_requires_abort()
    within.abort_transaction(TERM_S)
    assert oracle.ends(west.admin_bootstrap_servers, name, 1).high == 0


def test_a_link_that_refuses(pair: tuple[Running, Link, str], east: LocalCluster, west: LocalCluster) -> None:
    """A link that prefers to be consistent refuses, and what is refused is not in the log; it is when the client asks
    again later. Other topics are written meanwhile.
    """
    front, link, name = pair
    other = f"{name}-other"
    topics.create(east, other)
    link.plain = link.transactional = Duty.REFUSE
    writer = Writer(front.servers, west, acks="all", **{"retry.backoff.ms": 50})
    writer.write(name, 3)
    assert writer.flush(1.0) > 0
    ends = oracle.ends(east.admin_bootstrap_servers, name)
    free = Writer(front.servers, east, acks="all")
    free.write(other, 3)
    assert free.flush() == 0

    link.plain = Duty.PASS
    assert writer.flush() == 0
    for each in (writer, free):
        each.close()
    assert ends.high == 0
    assert values(east, name) == [b"0", b"1", b"2"]


def test_a_follower_that_is_away(
    pair: tuple[Running, Link, str], mirror: Mirror, east: LocalCluster, west: LocalCluster
) -> None:
    """Whoever writes into a link whose target nobody reaches waits; others are answered meanwhile."""
    front, _, name = pair
    away = f"{name}-away"
    topics.create(east, away)
    waiting, writer = Writer(front.servers, west, acks="all"), Writer(front.servers, west, acks="all")
    waiting.write(away, 3)
    await_held(front, waiting)
    with lanes(mirror, name):
        writer.write(name, 50)
        assert writer.flush() == 0
    writer.close()

    assert (len(writer.offsets), writer.missing) == (50, [])
    assert waiting.flush(0.1) > 0
    assert waiting.offsets == []
    waiting.leave()


def test_a_source_topic_that_is_made_anew(
    pair: tuple[Running, Link, str], mirror: Mirror, east: LocalCluster, west: LocalCluster
) -> None:
    """Its offsets are below the end of the follower, which has others there: nothing is acknowledged for that."""
    front, link, name = pair
    with lanes(mirror, name):
        first = Writer(front.servers, west, acks="all")
        first.write(name, 10)
        assert first.flush() == 0
        first.close()
    topics.delete(east, name)
    topics.create(east, name, partitions=2)
    writer = Writer(front.servers, west, acks="all")
    writer.write(name, 1, begin=100)
    assert writer.flush() == 0
    writer.close()

    assert (writer.offsets, link.gone) == ([0], {(name, 0): 0})
    assert link.other == {(name, 0)}


def test_acks_are_raised(pair: tuple[Running, Link, str], mirror: Mirror, west: LocalCluster) -> None:
    """A link may have acks=1 wait as well."""
    front, link, name = pair
    link.settings = SyncSettings(raise_acks=True)
    writer = Writer(front.servers, west, acks="1")
    with lanes(mirror, name):
        writer.write(name, 50)
        assert writer.flush() == 0
    writer.close()

    assert (len(writer.offsets), writer.missing) == (50, [])


KAFKA_PYTHON = """
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
servers, follower, name = sys.argv[1:4]
producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
consumer = KafkaConsumer(bootstrap_servers=follower)
where = TopicPartition(name, 0)
for number in range(50):
    told = producer.send(name, b"%d" % number, partition=0).get(60)
    print(told.offset, consumer.end_offsets([where])[where])
"""


def test_other_clients(pair: tuple[Running, Link, str], mirror: Mirror, west: LocalCluster) -> None:
    """kafka-python and Java's producer are answered when the follower has what they wrote."""
    front, _, name = pair
    command = [sys.executable, "-c", KAFKA_PYTHON, front.servers, west.bootstrap_servers, name]
    with lanes(mirror, name):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TERM_S, check=False)
        told = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        assert [offset for offset, _ in told] == list(range(50)), done.stderr[-2000:]
        assert all(end > offset for offset, end in told)

        properties = ("--producer-props", f"bootstrap.servers={front.servers}", "acks=all")
        what = ("--topic", name, "--num-records", "1000", "--record-size", "100", "--throughput", "-1")
        tool = kafka_tool("org.apache.kafka.tools.ProducerPerformance", *what, *properties)
        ends = sum(oracle.ends(west.admin_bootstrap_servers, name, partition).high for partition in range(2))

    assert "1000 records sent" in tool.stdout, tool.stdout + tool.stderr
    assert ends == 1050


def test_a_client_that_leaves_is_waited_for_no_more(pair: tuple[Running, Link, str], west: LocalCluster) -> None:
    """What was held for a client that is gone is forgotten."""
    front, _, name = pair
    writer = Writer(front.servers, west, acks="all")
    writer.write(name, 3)
    await_held(front, writer)

    writer.leave()

    assert front.gateway.keeper is not None
    deadline = time.monotonic() + TERM_S
    while front.gateway.keeper.count_held():
        assert time.monotonic() < deadline
        time.sleep(0.02)
