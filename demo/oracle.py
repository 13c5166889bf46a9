"""What consumers see, asked of librdkafka: our own reader is no proof of itself."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from demo.topics import Topic

Isolation = Literal["read_committed", "read_uncommitted"]

ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")

_AT_ONCE: Final = 10_000
_LOOK_S: Final = 0.1
_SILENT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class View:
    """All that a consumer sees of a topic: how many records, and a digest of each partition's.

    The digest covers offset, timestamp, key, value and headers of every record in order.
    """

    records: int
    digests: tuple[bytes, ...]


def view(bootstrap_servers: str, topic: Topic, isolation: Isolation) -> View:
    """Read a topic from its beginning to its end.

    :raises KafkaException: The cluster refused, or said nothing for half a minute.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo-oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    digests = [hashlib.blake2b() for _ in range(topic.partitions)]
    unfinished = set(range(topic.partitions))
    records, heard_at = 0, time.monotonic()
    try:
        consumer.assign([TopicPartition(topic.name, partition, 0) for partition in unfinished])
        while unfinished:
            messages = consumer.consume(_AT_ONCE, timeout=_LOOK_S)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENT_S:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in messages:
                if is_record(message):
                    records += 1
                    digests[message.partition() or 0].update(_content(message))
                else:
                    unfinished.discard(message.partition() or 0)
    finally:
        consumer.close()
    return View(records, tuple(digest.digest() for digest in digests))


def is_record(message: Message) -> bool:
    """Whether this is a record, and not the end of its partition."""
    error = message.error()
    if error is None:
        return True
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return False


def _content(message: Message) -> bytes:
    fields = (message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
    return repr(fields).encode()
