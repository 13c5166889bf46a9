"""Reads and sets configurations of topics and brokers: DescribeConfigs and IncrementalAlterConfigs (KIP-339)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import on_cluster, on_topic
from isthmus.model.kafka.topic import ConfigEntry, Configs, ConfigSource
from isthmus.model.naming import TopicT

_TOPIC: Final = 2
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_TOPICS_PER_REQUEST: Final = 200
_ALTER_S: Final = 30.0
_SOURCES: Final = {source.value: source for source in ConfigSource}


def entries_of(configs: Sequence[Any] | None) -> dict[str, ConfigEntry]:
    """The entries in an answer to DescribeConfigs or CreateTopics (KIP-525)."""
    return {
        config.name: ConfigEntry(
            config.value,
            _SOURCES.get(config.config_source, ConfigSource.UNKNOWN),
            bool(config.is_sensitive),
            bool(config.read_only),
        )
        for config in configs or ()
    }


async def describe_topic_configs(
    client: Client, names: Collection[str], *, only: Collection[str] | None = None
) -> Outcomes[str, Configs]:
    """The effective configurations of topics, all of each or `only` those named. Needs DESCRIBE_CONFIGS on each."""
    chunks = list(_chunks(sorted(names)))
    answers = await asyncio.gather(*(_describe_chunk(client, chunk, only) for chunk in chunks))
    values: dict[str, Configs] = {}
    errors: dict[str, ClusterError] = {}
    for answer in answers:
        values.update(answer.values)
        errors.update(answer.errors)
    return Outcomes(values, errors)


async def describe_broker_configs(client: Client, node_id: int, *, only: Collection[str] | None = None) -> Configs:
    """The effective configuration of one broker, or `only` what is named. Needs DESCRIBE_CONFIGS on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: The broker did not answer.
    """
    # Only the broker itself knows its own values.
    answer = await client.broker(node_id, _describe(_BROKER, [str(node_id)], only))
    result = answer.results[0]
    codes.raise_for_code(
        result.error_code,
        f"describing the configuration of broker {node_id}",
        on_cluster("DESCRIBE_CONFIGS"),
        cluster=client.cluster.alias,
        detail=result.error_message,
    )
    return entries_of(result.configs)


async def alter_topic_configs(client: Client, changes: Mapping[str, Mapping[str, str | None]]) -> Outcomes[str, None]:
    """Set configurations of topics, `None` restoring the default. Needs ALTER_CONFIGS on each."""
    if not changes:
        return Outcomes()
    try:
        answer = await client.any(_alter(_TOPIC, changes), timeout_s=_ALTER_S)
    except ClusterError as error:
        return Outcomes({}, dict.fromkeys(changes, error))
    errors = {
        response.resource_name: codes.error_for(
            response.error_code,
            f"setting {', '.join(changes[response.resource_name])} of topic {response.resource_name}",
            on_topic("ALTER_CONFIGS", response.resource_name),
            cluster=client.cluster.alias,
            detail=response.error_message,
        )
        for response in answer.responses
        if response.error_code != codes.NONE
    }
    return Outcomes({name: None for name in changes if name not in errors}, errors)


async def alter_broker_configs(client: Client, changes: Mapping[int, Mapping[str, str | None]]) -> Outcomes[int, None]:
    """Set dynamic configurations of brokers, `None` restoring the default. Needs ALTER_CONFIGS on the cluster."""
    errors: dict[int, ClusterError] = {}
    for node_id, values in changes.items():
        try:
            # Without KRaft only the broker itself accepts changes of its configuration.
            answer = await client.broker(node_id, _alter(_BROKER, {str(node_id): values}), timeout_s=_ALTER_S)
            codes.raise_for_code(
                answer.responses[0].error_code,
                f"setting {', '.join(values)} of broker {node_id}",
                on_cluster("ALTER_CONFIGS"),
                cluster=client.cluster.alias,
                detail=answer.responses[0].error_message,
            )
        except ClusterError as error:
            errors[node_id] = error
    return Outcomes({node_id: None for node_id in changes if node_id not in errors}, errors)


def _alter(resource_type: int, changes: Mapping[str, Mapping[str, str | None]]) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in values.items()
                ],
            )
            for name, values in changes.items()
        ],
        validate_only=False,
    )


async def _describe_chunk(client: Client, names: Sequence[str], only: Collection[str] | None) -> Outcomes[str, Configs]:
    try:
        answer = await client.any(_describe(_TOPIC, names, only))
    except ClusterError as error:
        return Outcomes({}, dict.fromkeys(names, error))
    values: dict[str, Configs] = {}
    errors: dict[str, ClusterError] = {}
    for result in answer.results:
        if result.error_code == codes.NONE:
            values[result.resource_name] = entries_of(result.configs)
        else:
            errors[result.resource_name] = codes.error_for(
                result.error_code,
                f"describing the configuration of topic {result.resource_name}",
                on_topic("DESCRIBE_CONFIGS", result.resource_name),
                cluster=client.cluster.alias,
                detail=result.error_message,
            )
    return Outcomes(values, errors)


def _describe(resource_type: int, names: Sequence[str], only: Collection[str] | None = None) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    keys = None if only is None else list(only)
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=resource_type, resource_name=name, configuration_keys=keys) for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(names), _TOPICS_PER_REQUEST):
        yield names[begin : begin + _TOPICS_PER_REQUEST]


async def find_compacted(client: Client, topics: Collection[TopicT]) -> set[TopicT]:
    """Find the topics that a log cleaner works on. Without DESCRIBE_CONFIGS none is known."""
    described = await describe_topic_configs(client, topics, only={"cleanup.policy"})
    policies = {topic: entries.get("cleanup.policy") for topic, entries in described.values.items()}
    return {topic for topic in topics if (entry := policies.get(topic)) and "compact" in (entry.value or "")}
