"""Parses Kafka's nodes in ZooKeeper to a `Registry`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from isthmus.model.kafka.registry import PartitionRegistration, Registry, RegistryNode

BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
_STATE: Final = re.compile(rf"{TOPICS}/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state")
_TOPIC: Final = re.compile(rf"{TOPICS}/(?P<topic>[^/]+)")
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_]+://(.+)")


def registry_of(nodes: Iterable[RegistryNode]) -> Registry:
    """Parse the registry from these nodes; missing or unreadable parts are left out, but `nodes` keeps their texts."""
    by_path = {node.path: node for node in nodes}
    brokers: dict[int, frozenset[str]] = {}
    partitions: dict[tuple[str, int], PartitionRegistration] = {}
    assigned: dict[tuple[str, int], tuple[int, ...]] = {}
    for path, node in by_path.items():
        state = _STATE.fullmatch(path)
        if state is not None:
            partition = _partition(_content(node))
            if partition is not None:
                partitions[state["topic"], int(state["partition"])] = partition
        elif topic := _TOPIC.fullmatch(path):
            assigned.update(_assignment(topic["topic"], _content(node)))
        elif path.startswith(f"{BROKERS}/"):
            brokers[int(path.rpartition("/")[2])] = _endpoints(_content(node))
    controller = _content(by_path.get(CONTROLLER)).get("brokerid")
    cluster_id = _content(by_path.get(CLUSTER_ID)).get("id")
    return Registry(
        cluster_id=cluster_id if isinstance(cluster_id, str) else None,
        controller=controller if isinstance(controller, int) else None,
        brokers=brokers,
        partitions={key: found._replace(replicas=assigned.get(key, ())) for key, found in partitions.items()},
        nodes=tuple(sorted(by_path.values())),
    )


def topic_path(topic: str) -> str:
    """The path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The path of a topic's partitions."""
    return f"{topic_path(topic)}/partitions"


def state_path(topic: str, partition: str) -> str:
    """The path of a partition's state."""
    return f"{partitions_path(topic)}/{partition}/state"


def _content(node: RegistryNode | None) -> Mapping[str, Any]:
    if node is None:
        return {}
    try:
        content = json.loads(node.text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _endpoints(broker: Mapping[str, Any]) -> frozenset[str]:
    """The `host:port` of every listener."""
    found = (_ENDPOINT.fullmatch(str(endpoint)) for endpoint in broker.get("endpoints") or ())
    return frozenset(endpoint[1] for endpoint in found if endpoint is not None)


def _assignment(topic: str, content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], tuple[int, ...]]]:
    """The replicas of each partition, the preferred leader first."""
    partitions = content.get("partitions")
    for number, replicas in partitions.items() if isinstance(partitions, dict) else ():
        try:
            yield (topic, int(number)), tuple(int(replica) for replica in replicas)
        except (TypeError, ValueError):
            continue


def _partition(state: Mapping[str, Any]) -> PartitionRegistration | None:
    try:
        return PartitionRegistration(
            int(state["leader"]), int(state["leader_epoch"]), tuple(int(replica) for replica in state["isr"])
        )
    except (KeyError, TypeError, ValueError):
        return None
