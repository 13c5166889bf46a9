"""A cluster as a whole: its id, its brokers with their releases, and our rights."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.configs import describe_broker_configs
from isthmus.kafka.admin.features import supported_levels
from isthmus.kafka.client import HEDGE_S, Client
from isthmus.kafka.metadata import Broker
from isthmus.model.kafka.releases import Releases, releases_of
from isthmus.model.kafka.rights import on_cluster


class Operation(enum.IntEnum):
    """The operations of access rules, by Kafka's own numbers (KIP-430)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


AllowedOperations = frozenset[Operation]

_EVERYBODY: Final = "allow.everyone.if.no.acl.found"
_METADATA_VERSION: Final = "metadata.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """One cluster. `operations` are our rights on the cluster itself (not on its topics).

    `fenced` brokers (KIP-841) are registered but serve no clients; they are not among `brokers`.
    """

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Broker]
    operations: AllowedOperations
    fenced: Mapping[int, Broker] = field(default_factory=dict)


async def describe_cluster(client: Client) -> ClusterDescription:
    """Describe the cluster: its id, its brokers and our rights (KIP-700).

    :raises ClusterError: The cluster did not answer, or another one did.
    """
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=True
    )
    answer = await client.any(request, hedge_s=HEDGE_S)
    codes.raise_for_code(
        answer.error_code,
        "describing the cluster",
        on_cluster("DESCRIBE"),
        cluster=client.cluster.alias,
        detail=answer.error_message,
    )
    client.recognize(answer.cluster_id)
    brokers = {b.broker_id: Broker(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers}
    # Before KIP-1073 the answer has neither fenced brokers nor this field.
    fenced = {b.broker_id for b in answer.brokers if b.is_fenced}
    return ClusterDescription(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers={node: broker for node, broker in brokers.items() if node not in fenced},
        operations=operations_of(answer.authorized_operations),
        fenced={node: brokers[node] for node in fenced},
    )


async def every_broker(client: Client) -> list[int]:
    """All brokers of the cluster, at least one: an empty list would prove that any resource is gone.

    :raises Unreachable: No broker answered, or it listed none, like a broker that has not joined the cluster yet.
    """
    nodes = sorted((await client.metadata()).brokers)
    if not nodes:
        alias = client.cluster.alias
        raise Unreachable(f"the broker of {alias} that answered names no broker that serves", cluster=alias)
    return nodes


async def may_let_everybody_in(client: Client) -> bool:
    """Whether everyone may access resources without rules, as far as brokers show: whether
    `allow.everyone.if.no.acl.found` is configured, but mostly not its value.

    :raises ClusterError: A broker did not answer, and none has it configured.
    """

    async def ask(node_id: int) -> bool | ClusterError:
        try:
            found = await describe_broker_configs(client, node_id, only=[_EVERYBODY])
        except ClusterError as error:
            return error
        return _EVERYBODY in found and found[_EVERYBODY].value != "false"

    answers = await asyncio.gather(*map(ask, await every_broker(client)))
    for unanswered in (each for each in answers if isinstance(each, ClusterError) and True not in answers):
        raise unanswered
    return True in answers


async def topic_operations(client: Client, names: Collection[str]) -> dict[str, AllowedOperations]:
    """Our rights on each topic. Topics that do not exist, or that we may not see, are left out.

    :raises ClusterError: The cluster did not answer.
    """
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
        min_version=8,
    )
    answer = await client.any(request)
    return {
        topic.name: operations_of(topic.authorized_operations)
        for topic in answer.topics
        if topic.error_code == codes.NONE
    }


async def broker_releases(client: Client, node_id: int) -> Releases:
    """The Kafka releases that a broker may run, by the messages it offers and the metadata it supports.

    :raises ClusterError: The broker did not answer.
    """
    connection = await client.connection(node_id)
    levels = await supported_levels(client, node_id)
    return releases_of(connection.api_versions, metadata_level_max=levels.get(_METADATA_VERSION))


async def told_releases(client: Client, node_ids: Collection[int]) -> dict[int, Releases]:
    """The releases of the brokers that answer, by node."""

    async def ask(node_id: int) -> Releases | None:
        try:
            return await broker_releases(client, node_id)
        except ClusterError:
            return None

    found_releases = await asyncio.gather(*map(ask, node_ids))
    return {node_id: found for node_id, found in zip(node_ids, found_releases, strict=True) if found is not None}


def operations_of(numbers: Iterable[int]) -> AllowedOperations:
    """The known operations with these numbers."""
    known = {int(operation) for operation in Operation}
    return frozenset(Operation(number) for number in numbers if number in known)
