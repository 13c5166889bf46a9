"""Topics of both clusters, as a plan looks at them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from isthmus.model.cluster import Cluster
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription
from isthmus.model.link import Link
from isthmus.model.naming import NamedTopics
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.observation import ObservedLink
from isthmus.topics.preflight import LONG_MAX, TopicPair
from testing.values.names import NAMES, ORDERS

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="east-west", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse("*"),)))

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "3600000",
}

NOTHING: Mapping[str, str] = {}
NO_DEFAULTS = {name: ConfigEntry(value) for name, value in DEFAULTS.items()}


def topic(own: Mapping[str, str] = NOTHING, *, partitions: int = 1, replicas: int = 1) -> TopicDescription:
    """A topic with configurations of its own."""
    configs = NO_DEFAULTS | {name: ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for name, value in own.items()}
    return TopicDescription(
        name="orders",
        topic_id=uuid.uuid4(),
        partition_count=partitions,
        replication_factor=replicas,
        configs=configs,
    )


def observed(pair: TopicPair | None, **fields: Any) -> ObservedLink:
    """Both sides of the link, with one topic or none."""
    seen = ObservedLink(
        link=LINK,
        source_id="E",
        target_id="W",
        target_brokers=3,
        names=NAMES if pair is not None else NamedTopics(),
        pairs={} if pair is None else {ORDERS: pair},
        defaults={ORDERS: NO_DEFAULTS},
        expiration_ms=86_400_000,
    )
    return replace(seen, **fields)


configs = st.fixed_dictionaries(
    {},
    optional={
        "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "compression.type": st.sampled_from(["producer", "lz4", "uncompressed"]),
        "max.message.bytes": st.integers(1_000, 10_000_000).map(str),
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "message.timestamp.after.max.ms": st.integers(0, LONG_MAX).map(str),
        "min.insync.replicas": st.integers(1, 3).map(str),
        "retention.ms": st.integers(-1, 10**12).map(str),
    },
)
