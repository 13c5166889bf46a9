"""Reads the registry from ZooKeeper, many nodes at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from isthmus.kafka.zookeeper.connection import open_session
from isthmus.kafka.zookeeper.znodes import (
    BROKERS,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPICS,
    partitions_path,
    registry_of,
    state_path,
    topic_path,
)
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.registry import Registry, RegistryNode

if TYPE_CHECKING:
    from kazoo.client import KazooClient


def kept_registry(cluster: Cluster) -> Registry:
    """Read the registry from ZooKeeper. Blocking; nothing is written.

    :raises HostError: kazoo is not installed.
    :raises ClusterError: ZooKeeper does not answer, forbids it, or holds no Kafka cluster.
    """
    with open_session(cluster) as client:
        return read_registry(client)


def read_registry(client: KazooClient) -> Registry:
    """Read all nodes of the registry once."""
    return registry_of(read_nodes(client, registry_paths(client)))


def registry_paths(client: KazooClient) -> list[str]:
    """The paths of the registry's nodes, including partitions that have no state yet."""
    brokers = [f"{BROKERS}/{node}" for node in client.get_children(BROKERS)]
    topics = client.get_children(TOPICS)
    listed = {topic: client.get_children_async(partitions_path(topic)) for topic in topics}
    states = [
        state_path(topic, partition) for topic, asked in listed.items() for partition in _answer(asked, default=())
    ]
    return [CLUSTER_ID, CONTROLLER, CONTROLLER_EPOCH, *brokers, *map(topic_path, topics), *states]


def read_nodes(client: KazooClient, paths: Iterable[str]) -> Iterator[RegistryNode]:
    """Yield the existing nodes at these paths, all asked for at once."""
    asked = {path: client.get_async(path) for path in paths}
    for path, answer in asked.items():
        found = _answer(answer, default=None)
        if found is not None:
            data, stat = found
            yield RegistryNode(path, (data or b"").decode(errors="replace"), stat.ephemeralOwner != 0)


def _answer(asked: Any, *, default: Any) -> Any:
    """Return the answer; `default` for a node that was deleted, or not created yet, while others were read."""
    from kazoo.exceptions import NoNodeError

    try:
        return asked.get()
    except NoNodeError:
        return default
