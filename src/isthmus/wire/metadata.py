"""What a cluster says about itself: brokers, topics, and who leads which partition."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

NO_TOPIC_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader` is -1 while there is none; `leader_epoch` is -1 where the broker does not tell."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`topic_id` is the nil UUID where the broker has none (before KIP-516); partitions are sorted by number."""

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
