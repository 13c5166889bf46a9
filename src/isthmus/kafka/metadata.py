"""The metadata of a cluster: brokers, topics, and leaders of partitions."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from isthmus.kafka.connect.frames import decode_response, skip_response_header

NO_TOPIC_ID = uuid.UUID(int=0)
_REMEMBERED_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader` is -1 while there is none; `leader_epoch` is -1 if the broker does not report it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`topic_id` is the nil UUID if the broker has none (before KIP-516); partitions are sorted by number."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionMetadata, ...]
    error_code: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class Metadata:
    """One answer to Metadata (API 3)."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicMetadata]

    @classmethod
    def of(cls, answer: Any) -> Self:
        return cls(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers={b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers},
            topics={t.name: _topic(t) for t in answer.topics if t.name is not None},
        )


def _topic(topic: Any) -> TopicMetadata:
    partitions = (
        PartitionMetadata(
            partition=p.partition_index,
            leader=p.leader_id,
            leader_epoch=-1 if p.leader_epoch is None else p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
            error_code=p.error_code,
        )
        for p in topic.partitions
    )
    return TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id or NO_TOPIC_ID,
        partitions=tuple(sorted(partitions, key=lambda p: p.partition)),
        error_code=topic.error_code,
        is_internal=bool(topic.is_internal),
    )


class MetadataAnswer(NamedTuple):
    """A broker's metadata and its throttle time in ms."""

    metadata: Metadata
    throttle_time_ms: int


class RecentAnswers:
    """A cache of the latest answers by their bytes, at most `bytes_max` together or a single one. Thread-safe.

    Every link asks for all topics every few seconds, and the answer rarely changes. Answers with the same bytes are
    decoded once for all callers: with 10,000 partitions decoding takes a tenth of a second.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._bytes = bytes_max, 0
        self._answers = OrderedDict[tuple[int, bytes], MetadataAnswer]()
        self._lock = threading.Lock()

    def read(self, version: int, answered: bytes, decode: Callable[[], Any]) -> MetadataAnswer:
        """Return the answer for these bytes in this version; `decode` is called unless it is cached."""
        key = version, answered
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        answer = decode()
        found = MetadataAnswer(Metadata.of(answer), answer.throttle_time_ms or 0)
        with self._lock:
            if key not in self._answers:
                self._bytes += len(answered)
            self._answers[key] = found
            while self._bytes > self._bytes_max and len(self._answers) > 1:
                (_, oldest), _ = self._answers.popitem(last=False)
                self._bytes -= len(oldest)
        return found


_RECENT: Final = RecentAnswers(_REMEMBERED_BYTES)


def read_metadata(request: Any, version: int, payload: memoryview, correlation: int) -> MetadataAnswer:
    """`decode_response` for Metadata.

    :raises ConnectionError: When the correlation id is not the one expected: the stream is out of step.
    """
    begin = skip_response_header(payload, correlation, flexible=False)
    return _RECENT.read(
        version, bytes(payload[begin:]), lambda: decode_response(request, version, payload, correlation)
    )
