"""Creates, enlarges and deletes topics: CreateTopics (API 19), CreatePartitions (API 37), DeleteTopics (API 20)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.configs import entries_of
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import Right, on_topic
from isthmus.model.kafka.topic import Configs

BROKER_DEFAULT: Final = -1
_TIMEOUT_S: Final = 30.0
_CONTROLLER_RETRIES: Final = 5
_RETRY_S: Final = 0.3
_DELETE_BY_ID_FROM: Final = 6
_ABOUT_SETTINGS: Final = frozenset({codes.INVALID_CONFIG, codes.POLICY_VIOLATION, codes.INVALID_REQUEST})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `BROKER_DEFAULT` leaves a number to the broker (KIP-464)."""

    name: str
    partition_count: int
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


async def create_topics(
    client: Client, topics: Collection[NewTopic], *, validate_only: bool = False, asks_configs: bool = True
) -> Outcomes[str, Configs]:
    """Create topics. Return the effective configuration of each (KIP-525).

    With `validate_only` nothing is created, and the answers show the result of a creation; without the right to see the
    configuration that is an error then, unless `asks_configs` is False.

    Needs CREATE on each topic or on the cluster, and DESCRIBE_CONFIGS to see the configuration.
    """
    if not topics:
        return Outcomes()
    creatable = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            creatable(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[
                    creatable.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=int(_TIMEOUT_S * 1000),
        validate_only=validate_only,
    )
    try:
        answer = await _ask_controller(client, request, lambda answer: answer.topics)
    except ClusterError as error:
        return Outcomes({}, {topic.name: error for topic in topics})
    values: dict[str, Configs] = {}
    errors: dict[str, ClusterError] = {}
    is_told = validate_only and asks_configs
    for result in answer.topics:
        # A topic was created even if we may not see its configuration.
        code = result.error_code or (result.topic_config_error_code if is_told else 0)
        if code:
            # Without an error code of its own only the configuration is hidden from us.
            right = on_topic("CREATE" if result.error_code else "DESCRIBE_CONFIGS", result.name)
            errors[result.name] = _refusal(client, code, f"creating topic {result.name}", right, result.error_message)
        else:
            values[result.name] = entries_of(result.configs)
    return Outcomes(values, errors)


def is_there_already(error: ClusterError | None) -> bool:
    """Whether the error means that the topic exists: another process was faster, or an answer was lost."""
    return isinstance(error, BrokerRefused) and error.code == codes.TOPIC_ALREADY_EXISTS


def is_about_settings(error: ClusterError | None) -> bool:
    """Whether a topic was refused because of a setting: without that setting it may be accepted."""
    return isinstance(error, BrokerRefused) and error.code in _ABOUT_SETTINGS


async def add_partitions(client: Client, counts: Mapping[str, int]) -> Outcomes[str, int]:
    """Enlarge topics to a number of partitions. Needs ALTER on each topic."""
    if not counts:
        return Outcomes()
    topic_class = CreatePartitionsRequest.CreatePartitionsTopic
    request = CreatePartitionsRequest(
        topics=[topic_class(name=name, count=count, assignments=None) for name, count in counts.items()],
        timeout_ms=int(_TIMEOUT_S * 1000),
        validate_only=False,
    )
    try:
        answer = await _ask_controller(client, request, lambda answer: answer.results)
    except ClusterError as error:
        return Outcomes({}, dict.fromkeys(counts, error))
    errors = {
        result.name: _refusal(
            client,
            result.error_code,
            f"adding partitions to topic {result.name}",
            on_topic("ALTER", result.name),
            result.error_message,
        )
        for result in answer.results
        if result.error_code
    }
    return Outcomes({name: count for name, count in counts.items() if name not in errors}, errors)


async def delete_topic(client: Client, topic_id: uuid.UUID, name: str) -> bool:
    """Delete the topic with this id, even if another one has its name by now. Return whether it existed. Needs DELETE
    on it.

    :raises ClusterError: The deletion was refused.
    """
    state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=int(_TIMEOUT_S * 1000), min_version=_DELETE_BY_ID_FROM)
    answer = await _ask_controller(client, request, lambda answer: answer.responses)
    (result,) = answer.responses
    if result.error_code in (codes.UNKNOWN_TOPIC_ID, codes.UNKNOWN_TOPIC_OR_PARTITION):
        return False
    if result.error_code:
        right = on_topic("DELETE", name)
        raise _refusal(client, result.error_code, f"deleting topic {name}", right, result.error_message)
    return True


async def await_leaders(client: Client, counts: Mapping[str, int], *, timeout_s: float = 10.0) -> frozenset[str]:
    """Wait until topics have these numbers of partitions, all with leaders. Return the names of those that do.

    :raises ClusterError: The cluster did not answer.
    """
    deadline = Deadline(timeout_s)
    while True:
        metadata = await client.metadata(sorted(counts))
        ready = frozenset(
            name
            for name, topic in metadata.topics.items()
            if len(topic.partitions) >= counts[name] and all(p.leader in metadata.brokers for p in topic.partitions)
        )
        if len(ready) == len(counts) or deadline.has_passed:
            return ready
        await asyncio.sleep(0.05)


async def _ask_controller(client: Client, request: Any, results: Callable[[Any], Sequence[Any]]) -> Any:
    """Ask the controller; if it has moved, find the new one (the former one did nothing)."""
    for attempt in range(_CONTROLLER_RETRIES):
        answer = await client.controller(request, timeout_s=_TIMEOUT_S + 5.0)
        moved = all(result.error_code == codes.NOT_CONTROLLER for result in results(answer))
        if not moved or attempt == _CONTROLLER_RETRIES - 1:
            break
        await asyncio.sleep(_RETRY_S)
        await client.metadata()
    return answer


def _refusal(client: Client, code: int, what: str, right: Right, detail: str | None) -> ClusterError:
    return codes.error_for(code, what, right, cluster=client.cluster.alias, detail=detail)
