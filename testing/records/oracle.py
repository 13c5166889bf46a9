"""What a topic holds, as librdkafka and Kafka's own tools tell it: opinions that are not ours."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from testing.patience import TERM_S
from testing.records.topics import Brokers

Isolation = Literal["read_committed", "read_uncommitted"]
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
_BATCH: Final = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+)")
_PRODUCER: Final = re.compile(r"producerId: (-?\d+)")
_NOT_SERVED: Final = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,  # a broker short of processor time misses its heartbeats, and leads nothing for a moment
}


class Seen(NamedTuple):
    """A record as a consumer sees it. `timestamp` is its type and its ms, as librdkafka gives them."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Ends(NamedTuple):
    """Log start, last stable offset and high watermark of a partition."""

    start: int
    stable: int
    high: int


def records(
    servers: str, topic: str, isolation: Isolation = "read_committed", *, partitions: int = 1
) -> list[list[Seen]]:
    """All records that a consumer at `isolation` sees, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": 8 << 20,
        }
    )
    seen: list[list[Seen]] = [[] for _ in range(partitions)]
    unfinished = set(range(partitions))
    try:
        # Without metadata the first look for offsets fails and is tried again only half a second later.
        consumer.list_topics(topic, TERM_S)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unfinished])
        while unfinished:
            message = consumer.poll(TERM_S)
            assert message is not None, f"{topic} fell silent"
            error = message.error()
            if error is None:
                seen[message.partition() or 0].append(_seen(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unfinished.discard(message.partition() or 0)
    finally:
        consumer.close()
    return seen


def _seen(message: Any) -> Seen:
    return Seen(message.offset(), message.timestamp(), message.key(), message.value(), tuple(message.headers() or ()))


def ends(servers: str, topic: str, partition: int = 0) -> Ends:
    """Where a partition begins and ends for consumers of either isolation level."""
    admin = AdminClient({"bootstrap.servers": servers})
    where = TopicPartition(topic, partition)

    def ask(spec: Any, isolation: IsolationLevel) -> int:
        deadline = time.monotonic() + TERM_S
        while True:
            answer = admin.list_offsets({where: spec()}, isolation_level=isolation, request_timeout=30.0)
            try:
                return int(answer[where].result().offset)
            except KafkaException as error:
                # A leader that is new is named before it serves, and librdkafka does not ask again.
                if error.args[0].code() not in _NOT_SERVED or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    return Ends(
        ask(OffsetSpec.earliest, IsolationLevel.READ_UNCOMMITTED),
        ask(OffsetSpec.latest, IsolationLevel.READ_COMMITTED),
        ask(OffsetSpec.latest, IsolationLevel.READ_UNCOMMITTED),
    )


def await_decided(servers: str, topic: str, partition: int = 0) -> None:
    """Wait until no transaction is open at the end of a partition: control records come after the answer."""
    deadline = time.monotonic() + TERM_S
    while (found := ends(servers, topic, partition)).stable != found.high:
        assert time.monotonic() < deadline, f"{topic}-{partition} {found}"
        time.sleep(0.05)


def batches(cluster: LocalCluster, topic: str, partition: int = 0) -> list[tuple[int, int, int]]:
    """First offset, last offset and record count of every batch, as Kafka's own tool reads them off broker 1's disk."""
    found = [tuple(map(int, match.groups())) for match in _BATCH.finditer(_dumped(cluster, topic, partition))]
    return sorted({(first, last, count) for first, last, count in found})


def producer_ids(cluster: LocalCluster, topic: str, partition: int = 0) -> set[int]:
    """Who wrote the batches on broker 1's disk, as Kafka's own tool tells; -1 for those of no such producer."""
    return {int(found) for found in _PRODUCER.findall(_dumped(cluster, topic, partition))}


def _dumped(cluster: LocalCluster, topic: str, partition: int) -> str:
    folder = cluster.broker(1).folder / "data" / f"{topic}-{partition}"
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    return kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", files).stdout


def assert_same(
    source: Brokers,
    target: Brokers,
    topic: str,
    *,
    partitions: int = 1,
    isolations: Sequence[Isolation] = ISOLATIONS,
    same_timestamp_type: bool = True,
) -> int:
    """Both logs show the same to both kinds of consumers; returns how many records read_uncommitted sees."""
    for partition in range(partitions):
        here, there = (ends(c.admin_bootstrap_servers, topic, partition) for c in (source, target))
        assert there == here, f"{topic}-{partition} {there} at the target, {here} at the source"
    for isolation in isolations:
        wanted, got = (
            records(c.admin_bootstrap_servers, topic, isolation, partitions=partitions) for c in (source, target)
        )
        if not same_timestamp_type:
            wanted, got = _without_timestamp_type(wanted), _without_timestamp_type(got)
        for partition in range(partitions):
            assert_equal(got[partition], wanted[partition], f"{topic}-{partition} at {isolation}")
    return sum(len(partition) for partition in wanted)


def assert_equal(got: Sequence[Seen], wanted: Sequence[Seen], where: str) -> None:
    """Fail at the first record that differs: pytest's own comparison of long lists takes minutes."""
    for here, there in zip(got, wanted, strict=False):
        assert here == there, f"{where}: {str(here)[:300]} is not {str(there)[:300]}"
    assert len(got) == len(wanted), f"{where}: {len(got)} records instead of {len(wanted)}"


def _without_timestamp_type(seen: Sequence[Sequence[Seen]]) -> list[list[Seen]]:
    return [[record._replace(timestamp=(0, record.timestamp[1])) for record in partition] for partition in seen]


def printed_records(servers: str, topic: str, isolation: Isolation, *, count: int, partition: int = 0) -> list[str]:
    """`count` records as Kafka's console consumer prints them, one line each."""
    shown = ("timestamp", "offset", "headers", "key", "value")
    result = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--topic", topic, "--partition", str(partition), "--offset", "earliest"),
        *("--isolation-level", isolation, "--max-messages", str(count), "--timeout-ms", "300000"),
        *(argument for name in shown for argument in ("--formatter-property", f"print.{name}=true")),
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()
