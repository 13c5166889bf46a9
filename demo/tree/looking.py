"""What clusters hold, as a consumer of another library reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from demo.recovery.application import NUMBER
from demo.topics import Topic
from isthmus.local import LocalCluster

_TERM_S: Final = 180.0


class Held(NamedTuple):
    """What one cluster holds: how often each number is there, and by partition and origin whether they are in order."""

    counts: Counter[int]
    in_order: bool


def ends(cluster: LocalCluster, topic: Topic) -> dict[int, int]:
    """Where each partition ends."""
    with _asking(cluster) as consumer:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic.name, number), timeout=_TERM_S)[1]
            for number in range(topic.partitions)
        }


def last_times(cluster: LocalCluster, topic: Topic) -> dict[int, int]:
    """The time of the last flight of each partition (ms)."""
    found: dict[int, int] = {}
    logs = ends(cluster, topic)
    with _asking(cluster) as consumer:
        consumer.assign([TopicPartition(topic.name, number, end - 1) for number, end in logs.items()])
        while len(found) < len(logs):
            message = consumer.poll(_TERM_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if message.error() is None:
                found[message.partition() or 0] = message.timestamp()[1]
    return found


def from_times(cluster: LocalCluster, topic: Topic, times: Mapping[int, int]) -> dict[int, int]:
    """The offsets of the first flights that are not older than these times (ms)."""
    with _asking(cluster) as consumer:
        wanted = [TopicPartition(topic.name, number, time_ms) for number, time_ms in times.items()]
        return {each.partition: each.offset for each in consumer.offsets_for_times(wanted, timeout=_TERM_S)}


@contextmanager
def _asking(cluster: LocalCluster) -> Iterator[Consumer]:
    """A consumer that only looks."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "bootstrap.servers": cluster.bootstrap_servers})
    try:
        yield consumer
    finally:
        consumer.close()


def held(cluster: LocalCluster, topic: Topic, origins: Mapping[int, str]) -> Held:
    """What a consumer of another library reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    counts: Counter[int] = Counter()
    last: dict[tuple[int, str], int] = {}
    in_order, left = True, topic.partitions
    try:
        consumer.assign([TopicPartition(topic.name, number, 0) for number in range(topic.partitions)])
        while left:
            message = consumer.poll(_TERM_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                left -= 1
                continue
            number = int(dict(message.headers() or [])[NUMBER] or b"-1")
            key = message.partition() or 0, origins.get(number, "")
            in_order = in_order and last.get(key, -1) < number
            last[key] = number
            counts[number] += 1
    finally:
        consumer.close()
    return Held(counts, in_order)
