"""Asks a cluster which topics are selected, and where their logs begin and end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, ConfigError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_COMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.log.timestamps import offsets_by_time
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, TopicMetadata
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.spark.dataframes.selection import Bound, Subscription

WHAT: Final = "reading the offsets of"
_TERM_S: Final = 60.0
_RETRY_S: Final = 0.2
_NO_MATCH: Final = -1


async def selected_topics(client: Client, subscription: Subscription) -> dict[str, TopicMetadata]:
    """Return the topics of a subscription that are there.

    :raises ClusterError: The cluster does not answer, or refuses to show a topic.
    """
    metadata = await client.metadata(subscription.asked)
    return {topic.name: topic for topic in selected_in(client, subscription, metadata)}


async def required_topics(client: Client, subscription: Subscription) -> dict[str, TopicMetadata]:
    """Return all topics of a subscription: those that are named have to be there.

    :raises ClusterError: As `selected_topics`; or there is no topic, or no partition, that is named.
    """
    found = await selected_topics(client, subscription)
    lacking = next((name for name in subscription.names if name not in found), None)
    there = {(name, each.partition) for name, topic in found.items() for each in topic.partitions}
    if lacking is None and subscription.assigned - there:
        lacking = min(subscription.assigned - there)[0]
    if lacking is not None:
        code, right = codes.UNKNOWN_TOPIC_OR_PARTITION, on_topic("DESCRIBE", lacking)
        raise codes.error_for(code, f"reading topic {lacking!r}", right, cluster=client.cluster.alias)
    return found


def selected_in(client: Client, subscription: Subscription, metadata: Metadata) -> list[TopicMetadata]:
    """Return the topics of a subscription that an answer has.

    :raises ClusterError: The cluster refuses to show one that is named.
    """
    found: list[TopicMetadata] = []
    for name, topic in sorted(metadata.topics.items()):
        if not any(subscription.selects(name, p.partition, is_internal=topic.is_internal) for p in topic.partitions):
            if name in subscription.names and topic.error_code not in codes.LEADER_MOVED:
                right = on_topic("DESCRIBE", name)
                codes.raise_for_code(topic.error_code, f"reading topic {name!r}", right, cluster=client.cluster.alias)
            continue
        found.append(topic)
    return found


def partitions_of(subscription: Subscription, topics: Mapping[str, TopicMetadata]) -> frozenset[PartitionKey]:
    """Return the selected partitions of topics."""
    return frozenset(
        (name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if subscription.selects(name, each.partition, is_internal=topic.is_internal)
    )


def ids_of(topics: Mapping[str, TopicMetadata]) -> dict[str, str]:
    """Return the ids of topics, "" for those of brokers that have none."""
    return {name: "" if topic.topic_id == NO_TOPIC_ID else str(topic.topic_id) for name, topic in topics.items()}


class Survey(NamedTuple):
    """The selected topics by their ids, and the logs of their selected partitions."""

    ids: Mapping[str, str]
    logs: Mapping[PartitionKey, LogRange]

    @property
    def uuids(self) -> dict[str, uuid.UUID]:
        """The ids that are known."""
        return {topic: uuid.UUID(text) for topic, text in self.ids.items() if text}


async def survey(client: Client, subscription: Subscription) -> Survey:
    """Find out where all selected logs begin and end.

    :raises ClusterError: One of them is still not known after a minute, or a topic that is named is not there.
    """
    deadline = Deadline(_TERM_S)
    while True:
        try:
            topics = await required_topics(client, subscription)
            keys = partitions_of(subscription, topics)
            logs = (await log_ranges(client, keys)).all() if keys else {}
            return Survey(ids_of(topics), logs)
        except ClusterError as error:
            if not may_pass(error) or deadline.has_passed or _is_unknown(error):
                raise
        await asyncio.sleep(_RETRY_S)


def _is_unknown(error: ClusterError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION


async def resolve(
    client: Client,
    bound: Bound,
    logs: Mapping[PartitionKey, LogRange],
    *,
    isolation: int,
    latest_if_late: bool,
) -> dict[PartitionKey, int]:
    """Return the offset of a bound in each log. Beginnings and ends become those of the logs.

    :raises ConfigError: It names other partitions; or no record is as late as its time, unless `latest_if_late`.
    :raises ClusterError: A leader does not answer.
    """
    values = bound.values(logs)
    ends = {key: readable_end(log, isolation) for key, log in logs.items()}
    if not bound.is_time:
        marks = {key: {EARLIEST: log.start, LATEST: ends[key]} for key, log in logs.items()}
        return {key: marks[key].get(value, value) for key, value in values.items()}
    found = await offsets_by_time(client, values)
    late = sorted(key for key, offset in found.items() if offset == _NO_MATCH)
    if late and not latest_if_late:
        shown = ", ".join(f"{topic}-{partition}" for topic, partition in late)
        raise ConfigError(
            f"no record of {shown} is as late as {bound.option} states",
            field=bound.option,
            hint="Set startingOffsetsByTimestampStrategy to latest to read such partitions from their end on.",
        )
    return {key: ends[key] if offset == _NO_MATCH else offset for key, offset in found.items()}


def readable_end(log: LogRange, isolation: int) -> int:
    """Return where a reader has to stop."""
    return log.stable_end if isolation == READ_COMMITTED else log.end
