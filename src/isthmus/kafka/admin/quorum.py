"""Describes the KRaft controllers: DescribeQuorum (API 55, KIP-595 and KIP-836)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeQuorumRequest

from isthmus.errors import ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.model.kafka import health
from isthmus.model.kafka.description import Quorum, QuorumReplica
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.rights import on_cluster

_METADATA_TOPIC: Final = "__cluster_metadata"
_WHAT: Final = "describing the quorum of controllers"
_NODES_FROM_VERSION: Final = 2
_TIMEOUT_S: Final = 3.0
NOT_TOLD: Final = "not reported by this broker version"

Addresses = Mapping[int, tuple[str, ...]]


async def quorum(client: Client) -> Quorum:
    """Describe the quorum's leader, voters and observers, and the lag of each. Needs DESCRIBE on the cluster.

    :raises UnsupportedByBroker: The cluster is not a KRaft cluster, or older than 3.3.
    :raises NotAuthorized: The right is missing.
    :raises ClusterError: No broker answered, or the controllers have no leader that could answer.
    """
    described, addresses = await metadata_log(client)
    replicas = {replica.replica_id: replica for replica in (*described.current_voters, *described.observers)}
    leader = replicas.get(described.leader_id)
    return Quorum(
        leader_id=None if described.leader_id < 0 else described.leader_id,
        leader_epoch=described.leader_epoch,
        high_watermark=described.high_watermark,
        voters=tuple(_replica(replica, leader, addresses) for replica in described.current_voters),
        observers=tuple(_replica(replica, leader, addresses) for replica in described.observers),
    )


async def quorum_findings(client: Client) -> tuple[Quorum | None, tuple[Finding, ...], str | None]:
    """The quorum, its findings, and the reason if it cannot be described.

    Controllers that do not answer are a finding: brokers can answer only while a controller leads.
    """
    alias = client.cluster.alias
    try:
        controllers = await quorum(client)
    except UnsupportedByBroker:
        return None, (), NOT_TOLD
    except NotAuthorized as error:
        return None, (), error.message
    except ClusterError as error:
        return None, (health.leaderless("no controller answers", alias),), error.message
    return controllers, tuple(health.quorum_findings(alias, controllers)), None


async def metadata_log(client: Client) -> tuple[Any, Addresses]:
    """The answer about the single partition of the metadata log, and the controllers' addresses if included.

    :raises ClusterError: As `quorum` does.
    """
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])
    # Version 1 is the first that reports when each replica caught up.
    answer = await client.any(DescribeQuorumRequest(topics=[topic], min_version=1), timeout_s=_TIMEOUT_S)
    alias, right = client.cluster.alias, on_cluster("DESCRIBE")
    codes.raise_for_code(answer.error_code, _WHAT, right, cluster=alias, detail=answer.error_message)
    described = answer.topics[0].partitions[0]
    codes.raise_for_code(described.error_code, _WHAT, right, cluster=alias, detail=described.error_message)
    nodes = answer.nodes if answer.version >= _NODES_FROM_VERSION else ()
    return described, {node.node_id: tuple(f"{at.host}:{at.port}" for at in node.listeners) for node in nodes}


def _replica(replica: Any, leader: Any, addresses: Addresses) -> QuorumReplica:
    log_end = replica.log_end_offset if replica.log_end_offset >= 0 else None
    lag_ms = lag_records = None
    if leader is not None and log_end is not None:
        lag_records = max(leader.log_end_offset - log_end, 0)
        if replica.last_caught_up_timestamp > 0:
            lag_ms = max(leader.last_caught_up_timestamp - replica.last_caught_up_timestamp, 0)
    return QuorumReplica(
        node_id=replica.replica_id,
        log_end=log_end,
        lag_records=lag_records,
        lag_ms=lag_ms,
        endpoints=addresses.get(replica.replica_id, ()),
    )
