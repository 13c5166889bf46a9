"""Reassignments (KIP-455): AlterPartitionReassignments (API 45), ListPartitionReassignments (46), their throttles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.configs import alter_broker_configs, alter_topic_configs, describe_topic_configs
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.assignment import Move
from isthmus.model.kafka.rights import on_cluster

_TIMEOUT_S: Final = 30.0
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"
_NOT_OF_MOVES: Final = (None, "", "*")


class Underway(NamedTuple):
    """A reassignment in progress: the brokers that have to fetch the partition, and those that will drop it."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def reassignments(client: Client) -> dict[PartitionKey, Underway]:
    """List the reassignments in progress. Needs DESCRIBE on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises UnsupportedByBroker: The brokers are older than 2.4.
    :raises Unreachable: The controller did not answer.
    """
    request = ListPartitionReassignmentsRequest(timeout_ms=int(_TIMEOUT_S * 1000), topics=None)
    answer = await client.controller(request, timeout_s=_TIMEOUT_S + 5.0)
    codes.raise_for_code(
        answer.error_code,
        "listing reassignments",
        on_cluster("DESCRIBE"),
        cluster=client.cluster.alias,
        detail=answer.error_message,
    )
    return {
        (topic.name, partition.partition_index): Underway(
            tuple(partition.adding_replicas), tuple(partition.removing_replicas)
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


async def reassign(client: Client, wanted: Mapping[PartitionKey, Sequence[int] | None]) -> Outcomes[PartitionKey, None]:
    """Start moving partitions to these brokers, or (`None`) cancel their reassignment. Needs ALTER on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises UnsupportedByBroker: The brokers are older than 2.4.
    :raises Unreachable: The controller did not answer: the result is unknown.
    """
    answer = await client.controller(_request(wanted), timeout_s=_TIMEOUT_S + 5.0)
    alias = client.cluster.alias
    what = "reassigning partitions"
    codes.raise_for_code(
        answer.error_code, what, on_cluster("ALTER"), cluster=alias, detail=getattr(answer, "error_message", None)
    )
    errors: dict[PartitionKey, ClusterError] = {}
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.error_code != codes.NONE:
                errors[topic.name, partition.partition_index] = codes.error_for(
                    partition.error_code,
                    f"reassigning {topic.name}-{partition.partition_index}",
                    on_cluster("ALTER"),
                    cluster=alias,
                    detail=partition.error_message,
                )
    return Outcomes({key: None for key in wanted if key not in errors}, errors)


def _request(wanted: Mapping[PartitionKey, Sequence[int] | None]) -> Any:
    topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), replicas in sorted(wanted.items()):
        topics[topic].append(
            topic_class.ReassignablePartition(
                partition_index=partition, replicas=None if replicas is None else list(replicas)
            )
        )
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(_TIMEOUT_S * 1000),
        allow_replication_factor_change=True,
        topics=[topic_class(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


async def throttle(client: Client, moves: Collection[Move], rate_bytes_per_s: int) -> None:
    """Limit the rate of these moves, per broker and direction; other replication is not slowed (KIP-73).

    :raises NotAuthorized: ALTER_CONFIGS on the cluster or on a topic is missing.
    :raises ClusterError: A broker refused it.
    """
    involved = sorted({broker for move in moves for broker in (*move.before, *move.after)})
    _raise_first(await alter_topic_configs(client, dict(_build_throttles(moves))))
    rates = dict.fromkeys(_RATES, str(rate_bytes_per_s))
    _raise_first(await alter_broker_configs(client, dict.fromkeys(involved, rates)))


async def unthrottle(client: Client, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Remove the throttles of moves, also those set by others.

    :raises ClusterError: A broker refused it.
    """
    none: Mapping[str, str | None] = {_LEADERS: None, _FOLLOWERS: None}
    _raise_first(await alter_topic_configs(client, dict.fromkeys(sorted(set(topics)), none)))
    rates: Mapping[str, str | None] = dict.fromkeys(_RATES)
    _raise_first(await alter_broker_configs(client, dict.fromkeys(sorted(set(brokers)), rates)))


async def find_throttled(client: Client, topics: Collection[str]) -> set[str]:
    """The topics among these with throttles of moves, as far as we may see them (DESCRIBE_CONFIGS)."""
    found = await describe_topic_configs(client, topics, only=(_LEADERS, _FOLLOWERS))
    # A permanent throttle of a topic is "*", which moves do not use.
    return {
        name
        for name, configs in found.values.items()
        if any(each.value not in _NOT_OF_MOVES for each in configs.values())
    }


def _build_throttles(moves: Collection[Move]) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield by topic the throttled leaders and followers, as `partition:broker`."""
    by_topic: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        by_topic[move.topic].append(move)
    for topic, its in by_topic.items():
        leaders = [f"{move.partition}:{broker}" for move in its for broker in move.before]
        followers = [f"{move.partition}:{broker}" for move in its for broker in move.comes]
        yield topic, {_LEADERS: ",".join(leaders), _FOLLOWERS: ",".join(followers)}


def _raise_first(outcomes: Outcomes[Any, None]) -> None:
    for error in outcomes.errors.values():
        raise error
