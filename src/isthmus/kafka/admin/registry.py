"""Builds the registry of a cluster, like ZooKeeper would hold it, from Metadata and DescribeQuorum."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from isthmus.errors import ClusterError
from isthmus.kafka.admin.access import has_authorizer
from isthmus.kafka.admin.brokers import told_releases
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.admin.quorum import quorum
from isthmus.kafka.client import Client
from isthmus.kafka.connect.address import written_address
from isthmus.kafka.metadata import Metadata
from isthmus.model.kafka.description import MetadataMode
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.kafka.registry import PartitionRegistration, Registry, RegistryNode
from isthmus.model.kafka.releases import Releases


async def told_registry(client: Client, mode: MetadataMode) -> Registry:
    """Build the registry from the brokers' answers. Topics that we may not DESCRIBE are left out.

    :raises ClusterError: The cluster did not answer.
    """
    metadata = await client.metadata(None)
    controller = metadata.controller_id if mode is MetadataMode.ZOOKEEPER else await _quorum_leader(client)
    partitions = partitions_of(metadata)
    return Registry(
        cluster_id=metadata.cluster_id,
        controller=controller,
        brokers={node: frozenset({f"{broker.host}:{broker.port}"}) for node, broker in metadata.brokers.items()},
        partitions={
            (p.topic, p.partition): PartitionRegistration(p.leader, p.leader_epoch, p.isr, p.replicas)
            for p in partitions
        },
        nodes=tuple(_nodes(metadata, controller, partitions, await told_releases(client, metadata.brokers))),
        is_whole=mode is MetadataMode.ZOOKEEPER and not await has_authorizer(client),
    )


async def _quorum_leader(client: Client) -> int | None:
    try:
        return (await quorum(client)).leader_id
    except ClusterError:
        return None


def _nodes(
    metadata: Metadata, controller: int | None, partitions: tuple[PartitionState, ...], releases: Mapping[int, Releases]
) -> Iterator[RegistryNode]:
    """Yield the tree that ZooKeeper would hold, as far as the API shows it: of a broker only the asked listener."""
    for node, broker in sorted(metadata.brokers.items()):
        address = written_address(broker.host, broker.port)
        version = str(releases[node]) if node in releases else None
        place = {"host": broker.host, "port": broker.port, "rack": broker.rack}
        yield _node(f"/brokers/ids/{node}", endpoints=[address], **place, version=version)
    assigned: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for partition in partitions:
        assigned[partition.topic][partition.partition] = list(partition.replicas)
    for topic, replicas in assigned.items():
        yield _node(f"/brokers/topics/{topic}", partitions=replicas)
    for partition in partitions:
        path = f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
        isr = list(partition.isr)
        yield _node(path, leader=partition.leader, leader_epoch=partition.leader_epoch, isr=isr)
    yield _node("/cluster/id", id=metadata.cluster_id)
    yield _node("/controller", brokerid=controller)


def _node(path: str, **content: object) -> RegistryNode:
    return RegistryNode(path, json.dumps(content), is_ephemeral=False)
