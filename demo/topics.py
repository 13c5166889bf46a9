"""The topics of the demonstration: one for each thing that is not easy to mirror."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

REPLICATION_FACTOR: Final = 2
_CREATE_TERM_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic at the source, how its producer compresses, and from which airports its flights leave ("" for all)."""

    name: str
    kind: str
    partitions: int
    codec: str
    origin: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)


# While one of two replicas restarts, the other one alone goes on.
_ONE_MAY_BE_DOWN: Final = {"min.insync.replicas": "1"}
# The flights are of 2013: with the default retention of a week they would be deleted at once.
KEEP: Final = {"retention.ms": "-1", **_ONE_MAY_BE_DOWN}

FLIGHTS: Final = Topic(name="flights", kind="lz4", partitions=4, codec="lz4", configs=KEEP)
ZSTD: Final = Topic(name="flights-zstd", kind="zstd", partitions=2, codec="zstd", origin="EWR", configs=KEEP)
TRANSACTIONS: Final = Topic(
    name="flights-transactions", kind="lz4, transactional", partitions=2, codec="lz4", origin="LGA", configs=KEEP
)
LATEST: Final = Topic(
    name="flights-latest",
    kind="lz4, compacted",
    partitions=1,
    codec="lz4",
    # Small segments and no patience: the cleaner does within seconds what otherwise takes hours.
    configs={
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        **_ONE_MAY_BE_DOWN,
    },
)
LIVE: Final = Topic(name="flights-live", kind="lz4, live", partitions=1, codec="lz4", configs=_ONE_MAY_BE_DOWN)
TOPICS: Final = (FLIGHTS, ZSTD, TRANSACTIONS, LATEST, LIVE)

BROKER_PROPERTIES: Final = {
    # The cleaner looks for work all 15 s by default.
    "log.cleaner.backoff.ms": "500",
    # Aborted records are copied then, exactly once, instead of being left out: see docs/guarantees.md.
    "transaction.partition.verification.enable": "false",
}


def create(bootstrap_servers: str, topics: Iterable[Topic], replication_factor: int = REPLICATION_FACTOR) -> None:
    """Create topics.

    :raises KafkaException: The cluster refused.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    asked = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=replication_factor,
            config=dict(topic.configs),
        )
        for topic in topics
    ]
    for created in admin.create_topics(asked).values():
        created.result(_CREATE_TERM_S)
