"""Describes the topics of a cluster: identity, partitions and effective configuration."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafka.protocol.metadata import MetadataRequest

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.configs import describe_topic_configs
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, TopicMetadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import on_topic
from isthmus.model.kafka.topic import Configs, TopicDescription
from isthmus.model.selection import TopicSettings

_BY_ID_FROM: Final = 12


async def selected_topics(client: Client, topics: TopicSettings) -> Metadata:
    """Metadata of the topics a filter selects, among those we may see (DESCRIBE on the topic).

    Literally included names are asked for by name: one that does not exist is included with its error.

    :raises ClusterError: The cluster did not answer.
    """
    if topics.are_all_literal:
        return await client.metadata(topics.literals)
    everything = await client.metadata(None)
    selected: dict[str, TopicMetadata] = {name: everything.topics[name] for name in topics.select(everything.topics)}
    missing = [name for name in topics.literals if name not in selected]
    if missing:
        selected.update((await client.metadata(missing)).topics)
    return Metadata(everything.cluster_id, everything.controller_id, everything.brokers, selected)


async def describe_topics(client: Client, topics: Iterable[TopicMetadata]) -> Outcomes[str, TopicDescription]:
    """Describe the topics of a Metadata answer with their configurations. Needs DESCRIBE_CONFIGS on each."""
    errors: dict[str, ClusterError] = {}
    sound: dict[str, TopicMetadata] = {}
    for topic in topics:
        if topic.error_code == codes.NONE:
            sound[topic.name] = topic
        else:
            what = f"describing topic {topic.name}"
            right = on_topic("DESCRIBE", topic.name)
            errors[topic.name] = codes.error_for(topic.error_code, what, right, cluster=client.cluster.alias)
    configs = await describe_topic_configs(client, sound)
    errors.update(configs.errors)
    return Outcomes({name: _description(sound[name], values) for name, values in configs.values.items()}, errors)


async def known_absent(client: Client, names: Collection[str]) -> frozenset[str]:
    """The topics among these that every broker of the cluster reports as missing. A single broker may not know them
    yet; a topic that a broker cannot be asked for, or that we may not see, does not count as missing.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not names:
        return frozenset()
    brokers = (await client.metadata()).brokers
    answers = await asyncio.gather(*(client.metadata(sorted(names), node_id=each) for each in brokers))
    if not answers or any(each.brokers.keys() - brokers.keys() for each in answers):
        return frozenset()
    gone = [
        {name for name, topic in each.topics.items() if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION}
        for each in answers
    ]
    return frozenset(names).intersection(*gone)


async def known_deleted(client: Client, topics: Mapping[str, uuid.UUID]) -> frozenset[str]:
    """The topics among these, by names and ids, that every broker of the cluster reports as missing by name and by id.
    A missing id is reported whatever rights we have (KIP-516).

    :raises UnsupportedByBroker: A broker is older than Kafka 3.1 and cannot be asked about ids.
    :raises ClusterError: The cluster as a whole did not answer.
    """
    absent = await known_absent(client, topics)
    ids = {topics[name] for name in absent} - {NO_TOPIC_ID}
    if not ids:
        return frozenset()
    answers = await asyncio.gather(
        *(_find_unknown_ids(client, node, ids) for node in (await client.metadata()).brokers)
    )
    unknown = ids.intersection(*answers) if answers else set()
    return frozenset(name for name in absent if topics[name] in unknown)


async def _find_unknown_ids(client: Client, node_id: int, ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """The ids among these that a broker does not know."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(topic_id=each, name=None) for each in ids],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        min_version=_BY_ID_FROM,
    )
    answer = await client.broker(node_id, request)
    client.recognize(answer.cluster_id)
    return {topic.topic_id for topic in answer.topics if topic.error_code == codes.UNKNOWN_TOPIC_ID}


def _description(topic: TopicMetadata, configs: Configs) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        replication_factor=max((len(p.replicas) for p in topic.partitions), default=0),
        configs=configs,
    )
