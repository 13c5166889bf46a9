"""The registry of a cluster (seed 003): its id, controller, live brokers, and who leads which partition.

ZooKeeper holds it as nodes; a KRaft cluster tells the same through Kafka's API. Both become a `Registry`,
so that one can be held against the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus.model.findings import Finding, Level


class RegistryNode(NamedTuple):
    """One node of the tree. An ephemeral one goes when the broker that made it goes."""

    path: str
    text: str
    is_ephemeral: bool


class PartitionRegistration(NamedTuple):
    """Who leads a partition. `leader` is -1 for nobody."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """One look at the registry. `brokers` maps live brokers to their endpoints, as `host:port`."""

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, frozenset[str]] = field(default_factory=dict)
    partitions: Mapping[tuple[str, int], PartitionRegistration] = field(default_factory=dict)
    nodes: tuple[RegistryNode, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Plain values under stable names."""
        return {
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "brokers": {str(node): sorted(endpoints) for node, endpoints in sorted(self.brokers.items())},
            "nodes": [node._asdict() for node in self.nodes],
        }


def changes(before: Registry, after: Registry) -> Iterator[str]:
    """What became different, in sentences; brokers first, since the rest follows from them."""
    for node in sorted(before.brokers.keys() - after.brokers.keys()):
        yield f"broker {node} is gone"
    for node in sorted(after.brokers.keys() - before.brokers.keys()):
        yield f"broker {node} is there at {', '.join(sorted(after.brokers[node]))}"
    if before.cluster_id != after.cluster_id:
        yield f"the cluster id is {after.cluster_id} and was {before.cluster_id}"
    if before.controller != after.controller:
        yield "there is no controller" if after.controller is None else f"broker {after.controller} is the controller"
    for key in sorted(before.partitions.keys() | after.partitions.keys()):
        former, now = before.partitions.get(key), after.partitions.get(key)
        name = f"{key[0]}-{key[1]}"
        if now is None:
            yield f"{name} is gone"
        elif former != now:
            leader = "without a leader" if now.leader < 0 else f"led by {now.leader}"
            isr = ", ".join(map(str, now.isr)) or "none"
            yield f"{name} is {leader} in epoch {now.leader_epoch}, in sync are {isr}"


def disagreements(subject: str, kept: Registry, told: Registry) -> Iterator[Finding]:
    """Where what ZooKeeper keeps and what Kafka's API tells are not the same.

    Brokers learn of changes a moment later: believe only what two looks have found.
    """
    if kept.cluster_id != told.cluster_id:
        yield _finding(
            subject,
            Level.ERROR,
            f"/cluster/id is {kept.cluster_id}, the brokers say {told.cluster_id}",
            "The zookeeper of this cluster's configuration belongs to another cluster, or its chroot is wrong.",
        )
        return
    for node in sorted(kept.brokers.keys() ^ told.brokers.keys()):
        where, elsewhere = ("ZooKeeper", "the API") if node in kept.brokers else ("the API", "ZooKeeper")
        yield _finding(
            subject,
            Level.WARN,
            f"broker {node} is registered according to {where}, and not according to {elsewhere}",
            f"Look at the log of broker {node}: it may have lost its session, or the controller its way to it.",
        )
    for node in sorted(kept.brokers.keys() & told.brokers.keys()):
        if not told.brokers[node] <= kept.brokers[node]:
            yield _finding(
                subject,
                Level.WARN,
                f"clients are sent to broker {node} at {', '.join(sorted(told.brokers[node]))}, it is registered at "
                f"{', '.join(sorted(kept.brokers[node]))}",
                "Compare advertised.listeners of the broker with what its node in ZooKeeper says.",
            )
    if kept.controller != told.controller:
        yield _finding(
            subject,
            Level.WARN,
            f"/controller names broker {kept.controller}, the brokers name {told.controller}",
            "Look at both brokers' logs: one takes itself for a controller that it is not.",
        )
    for key in sorted(kept.partitions.keys() & told.partitions.keys()):
        yield from _partition(subject, key, kept.partitions[key], told.partitions[key])


def _partition(
    subject: str, key: tuple[str, int], kept: PartitionRegistration, told: PartitionRegistration
) -> Iterator[Finding]:
    # A broker of 2.8 and older may not tell the epoch.
    epochs_differ = told.leader_epoch >= 0 and kept.leader_epoch != told.leader_epoch
    if kept.leader != told.leader or set(kept.isr) != set(told.isr) or epochs_differ:
        yield _finding(
            f"{subject}/{key[0]}",
            Level.WARN,
            f"partition {key[1]}: ZooKeeper has {_shown(kept)}, the API {_shown(told)}",
            "Let the controller tell the brokers anew: delete /controller, or restart the broker it names.",
        )


def _shown(partition: PartitionRegistration) -> str:
    isr = ", ".join(map(str, sorted(partition.isr)))
    return f"leader {partition.leader} in epoch {partition.leader_epoch} with {isr} in sync"


def _finding(subject: str, level: Level, message: str, hint: str) -> Finding:
    return Finding(level=level, subject=subject, check="zookeeper", message=message, hint=hint)
