"""Topics as a cluster describes them: identity, partitions and effective configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from isthmus.cluster.configs import describe_topic_configs
from isthmus.cluster.outcomes import Outcomes
from isthmus.errors import ClusterError
from isthmus.model.rights import on_topic
from isthmus.model.selection import TopicSettings
from isthmus.model.topic import Configs, TopicDescription
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.metadata import Metadata, TopicMetadata


async def selected_topics(client: Client, topics: TopicSettings) -> Metadata:
    """Metadata of the topics a filter selects, among those we may see (DESCRIBE on the topic).

    Names included literally are asked for by name: one that does not exist is there with its error.

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
    """The topics of a Metadata answer with their configurations. Needs DESCRIBE_CONFIGS on each."""
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
    """Those of these topics of which every broker of the cluster says that there are none. One broker alone may not
    have heard of them yet; what one cannot be asked about, or may not be seen, is not known.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not names:
        return frozenset()
    brokers = (await client.metadata()).brokers
    told = await asyncio.gather(*(client.metadata(sorted(names), node_id=each) for each in brokers))
    if not told:
        return frozenset()
    gone = [
        {name for name, topic in each.topics.items() if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION}
        for each in told
    ]
    return frozenset(names).intersection(*gone)


def _description(topic: TopicMetadata, configs: Configs) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        replication_factor=max((len(p.replicas) for p in topic.partitions), default=0),
        configs=configs,
    )
