"""Both logs as librdkafka's consumers see them."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from soak.content import identity_of, is_sound
from soak.judge.evidence import NO_LOG, Log, PartitionKey, Seen, fingerprint
from soak.judge.settings import Setting, Shape
from soak.naming import AS_AT_SOURCE, Names

Isolation = Literal["read_committed", "read_uncommitted"]
_AT_ONCE: Final = 5_000
_LOOK_S: Final = 0.2
_SILENT_S: Final = 60.0
_ADMIN_S: Final = 20.0


class Ends(NamedTuple):
    """Log start, last stable offset and high watermark of a partition."""

    start: int
    stable: int
    high: int


class Ruler:
    """Measures where partitions of one cluster begin and end, again and again. All go by their names at the source."""

    def __init__(self, servers: str, names: Names = AS_AT_SOURCE) -> None:
        self._names = names
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def partitions(self, *, term_s: float = _ADMIN_S) -> list[PartitionKey]:
        """All partitions of the topics of a run.

        :raises KafkaException: The cluster does not answer.
        """
        topics = self._admin.list_topics(timeout=term_s).topics
        return sorted(
            (self._names.at_source(name), partition)
            for name, topic in topics.items()
            if name.startswith(self._names.prefix) and topic.error is None
            for partition in topic.partitions
        )

    def ends(self, keys: Iterable[PartitionKey], *, term_s: float = _ADMIN_S) -> dict[PartitionKey, Ends]:
        """Where these partitions begin and end; those that do not answer are left out.

        The high watermark is asked for first: a stable end is never older than it.
        """
        where = {TopicPartition(self._names.called(topic), number): (topic, number) for topic, number in keys}
        highs = self._ask(where, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED, term_s)
        stables = self._ask(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED, term_s)
        starts = self._ask(where, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED, term_s)
        return {key: Ends(starts[key], stables[key], highs[key]) for key in highs if key in stables and key in starts}

    def _ask(
        self,
        where: dict[TopicPartition, PartitionKey],
        spec: OffsetSpec,
        isolation: IsolationLevel,
        term_s: float,
    ) -> dict[PartitionKey, int]:
        if not where:
            return {}
        asked = self._admin.list_offsets(dict.fromkeys(where, spec), isolation_level=isolation, request_timeout=term_s)
        found: dict[PartitionKey, int] = {}
        for partition, answer in asked.items():
            try:
                offset = answer.result(term_s).offset
            except (KafkaException, TimeoutError):  # it has no leader now, or does not answer
                continue
            if offset >= 0:  # below 0 librdkafka has heard of none, and calls that no error
                found[where[partition]] = offset
        return found


def read_logs(
    servers: str, keys: Iterable[PartitionKey], names: Names = AS_AT_SOURCE, *, without: str = ""
) -> dict[PartitionKey, Log]:
    """The logs of partitions, whole, as consumers of both isolation levels see them, but for the header `without`.

    :raises KafkaException: The cluster refused, or said nothing for a minute.
    """
    wanted = list(keys)
    ends = _ends_of_all(Ruler(servers, names), wanted)
    records = _read(servers, wanted, names, "read_uncommitted", without)
    visible = _read(servers, wanted, names, "read_committed", without)
    return {
        key: Log(
            start=ends[key].start,
            stable=ends[key].stable,
            high=ends[key].high,
            records=tuple(records[key]),
            visible=frozenset(seen.offset for seen in visible[key]),
        )
        if key in ends
        else NO_LOG
        for key in wanted
    }


def _ends_of_all(ruler: Ruler, keys: list[PartitionKey]) -> dict[PartitionKey, Ends]:
    deadline = time.monotonic() + _SILENT_S
    found: dict[PartitionKey, Ends] = {}
    while len(found) < len(keys) and time.monotonic() < deadline:
        found |= ruler.ends([key for key in keys if key not in found])
    return found


def topic_ids(servers: str, names: Names = AS_AT_SOURCE) -> dict[str, uuid.UUID]:
    """The ids of the topics of a run, by their names at the source.

    :raises KafkaException: The cluster does not answer.
    """
    called = sorted({names.called(topic) for topic, _ in Ruler(servers, names).partitions()})
    if not called:
        return {}
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    asked = client.describe_topics(TopicCollection(called), request_timeout=_ADMIN_S)
    found: dict[str, uuid.UUID] = {}
    for name, answer in asked.items():
        told = answer.result(_ADMIN_S).topic_id
        halves = (told.get_most_significant_bits(), told.get_least_significant_bits())
        high, low = (half & ((1 << 64) - 1) for half in halves)
        found[names.at_source(name)] = uuid.UUID(int=high << 64 | low)
    return found


def topic_shapes(servers: str, names: Names = AS_AT_SOURCE) -> dict[str, Shape]:
    """How many partitions the topics of a run have, and their settings.

    :raises KafkaException: The cluster does not answer.
    """
    counts = Counter(topic for topic, _ in Ruler(servers, names).partitions())
    if not counts:
        return {}
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wanted = {ConfigResource(ResourceType.TOPIC, names.called(topic)): topic for topic in counts}
    found: dict[str, Shape] = {}
    for resource, answer in client.describe_configs(list(wanted), request_timeout=_ADMIN_S).items():
        settings = {
            name: Setting(entry.value, ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG)
            for name, entry in answer.result(_ADMIN_S).items()
        }
        topic = wanted[resource]
        found[topic] = Shape(partitions=counts[topic], settings=settings)
    return found


def read_documents(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of the committed records in the first partition of a topic, in order.

    :raises KafkaException: The cluster refused, or said nothing for a minute.
    """
    return [(message.key(), message.value()) for message in messages(servers, [(topic, 0)], "read_committed")]


def _read(
    servers: str, keys: list[PartitionKey], names: Names, isolation: Isolation, without: str
) -> dict[PartitionKey, list[Seen]]:
    found: dict[PartitionKey, list[Seen]] = {key: [] for key in keys}
    for message in messages(servers, [(names.called(topic), number) for topic, number in keys], isolation):
        key = (names.at_source(message.topic() or ""), message.partition() or 0)
        found[key].append(seen(message, without=without))
    return found


def messages(servers: str, partitions: list[PartitionKey], isolation: Isolation) -> Iterator[Message]:
    """All records of partitions, from their beginnings to their ends. Topics go by the names they have here."""
    if not partitions:
        return
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    unfinished, heard_at = set(partitions), time.monotonic()
    try:
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in partitions])
        while unfinished:
            messages = consumer.consume(_AT_ONCE, timeout=_LOOK_S)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENT_S:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{sorted(unfinished)} fell silent"))
            for message in messages:
                if _is_record(message):
                    yield message
                else:
                    unfinished.discard((message.topic() or "", message.partition() or 0))
    finally:
        consumer.close()


def _is_record(message: Message) -> bool:
    """Whether this is a record, and not the end of its partition."""
    error = message.error()
    if error is None:
        return True
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return False


def seen(message: Message, *, without: str = "") -> Seen:
    """A record as a consumer got it, but for the header `without`."""
    kind, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    # librdkafka's own types say that headers may be anything; what arrives are bytes.
    told: list[tuple[str, bytes | None]] = list(message.headers() or [])  # type: ignore[arg-type]
    headers = [header for header in told if header[0] != without]
    return Seen(
        offset=message.offset() or 0,
        id=identity_of(headers),
        content=fingerprint(key, value, headers, kind, timestamp),
        key=None if key is None else fingerprint(key),
        is_null=value is None,
        is_sound=is_sound(key, value, headers, timestamp),
    )
