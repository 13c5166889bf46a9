"""The registry of a cluster (seed 003): its id, controller, live brokers, and the leaders of partitions.

ZooKeeper holds it as nodes; a KRaft cluster reports the same through Kafka's API. Both become a `Registry`, so that one
can be compared with the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, NamedTuple

from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.text.plain import Hidden, PlainValue

_TELL_ANEW: Final = "Let the controller inform the brokers again: delete /controller, or restart the broker it names."


class RegistryNode(NamedTuple):
    """One node of the tree. An ephemeral one goes when the broker that made it goes."""

    path: str
    text: str
    is_ephemeral: bool


class PartitionRegistration(NamedTuple):
    """The leader of a partition, -1 for none; `replicas` is empty if the assignment is unknown."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...] = ()


def _sort_endpoints(brokers: Mapping[int, frozenset[str]]) -> dict[str, list[str]]:
    return {str(node): sorted(endpoints) for node, endpoints in sorted(brokers.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry(PlainValue):
    """The registry of brokers and partitions; endpoints by broker.

    `brokers` maps live brokers to their endpoints, as `host:port`.

    `is_whole` means that all topics are shown: brokers leave out those that we may not DESCRIBE.
    """

    SCHEMA: ClassVar = "BrokerRegistry"

    cluster_id: str | None
    controller: int | None
    brokers: Annotated[Mapping[int, frozenset[str]], _sort_endpoints] = field(default_factory=dict)
    partitions: Hidden[Mapping[tuple[str, int], PartitionRegistration]] = field(default_factory=dict)
    nodes: tuple[RegistryNode, ...] = ()
    is_whole: Hidden[bool] = True


def changes(before: Registry, after: Registry) -> Iterator[str]:
    """Describe the differences, in sentences; brokers first, since the rest follows from them."""
    yield from _broker_changes(before.brokers, after.brokers)
    if before.cluster_id != after.cluster_id:
        yield f"the cluster id is {after.cluster_id} and was {before.cluster_id}"
    if before.controller != after.controller:
        yield "there is no controller" if after.controller is None else f"broker {after.controller} is the controller"
    for key in sorted(before.partitions.keys() | after.partitions.keys()):
        yield from _partition_changes(f"{key[0]}-{key[1]}", before.partitions.get(key), after.partitions.get(key))


def _broker_changes(before: Mapping[int, frozenset[str]], after: Mapping[int, frozenset[str]]) -> Iterator[str]:
    for node in sorted(before.keys() - after.keys()):
        yield f"broker {node} is gone"
    for node in sorted(after.keys() - before.keys()):
        yield f"broker {node} is there at {_endpoints(after[node])}"
    for node in sorted(before.keys() & after.keys()):
        if before[node] != after[node]:
            yield f"broker {node} is at {_endpoints(after[node])} and was at {_endpoints(before[node])}"


def _partition_changes(
    name: str, former: PartitionRegistration | None, now: PartitionRegistration | None
) -> Iterator[str]:
    if now is None:
        yield f"{name} is gone"
        return
    if former is None or former[:3] != now[:3]:
        leader = "without a leader" if now.leader < 0 else f"led by {now.leader}"
        isr = ", ".join(map(str, now.isr)) or "none"
        yield f"{name} is {leader} in epoch {now.leader_epoch}, in sync are {isr}"
    if former is not None and former.replicas != now.replicas:
        yield f"{name} is assigned to {_brokers(now.replicas)} and was to {_brokers(former.replicas)}"


def disagreements(subject: str, kept: Registry, reported: Registry) -> Iterator[Finding]:
    """Yield a finding for each difference between what ZooKeeper keeps and what Kafka's API reports.

    Brokers learn of changes a moment later: believe only what two looks have found.
    """
    if kept.cluster_id != reported.cluster_id:
        yield _finding(
            subject,
            Level.ERROR,
            f"/cluster/id is {kept.cluster_id}, the brokers report {reported.cluster_id}",
            "The zookeeper of this cluster's configuration belongs to another cluster, or its chroot is wrong.",
        )
        return
    for node in sorted(kept.brokers.keys() ^ reported.brokers.keys()):
        where, elsewhere = ("ZooKeeper", "the API") if node in kept.brokers else ("the API", "ZooKeeper")
        yield _finding(
            subject,
            Level.WARN,
            f"broker {node} is registered according to {where}, and not according to {elsewhere}",
            f"Look at the log of broker {node}: it may have lost its session, or the controller its way to it.",
        )
    for node in sorted(kept.brokers.keys() & reported.brokers.keys()):
        if not reported.brokers[node] <= kept.brokers[node]:
            yield _finding(
                subject,
                Level.WARN,
                f"clients are sent to broker {node} at {_endpoints(reported.brokers[node])}, it is registered at "
                f"{_endpoints(kept.brokers[node])}",
                "Compare advertised.listeners of the broker with its node in ZooKeeper.",
            )
    if kept.controller != reported.controller:
        yield _finding(
            subject,
            Level.WARN,
            f"/controller names broker {kept.controller}, the brokers name {reported.controller}",
            "Look at both brokers' logs: one takes itself for a controller that it is not.",
        )
    yield from _one_sided(subject, kept, reported)
    for key in sorted(kept.partitions.keys() & reported.partitions.keys()):
        yield from _partition(subject, key, kept.partitions[key], reported.partitions[key])


def _one_sided(subject: str, kept: Registry, reported: Registry) -> Iterator[Finding]:
    """Yield partitions that only one side knows; a topic that is hidden from us does not count."""
    topics = {topic for topic, _ in reported.partitions}
    for key in sorted(kept.partitions.keys() ^ reported.partitions.keys()):
        is_kept = key in kept.partitions
        if is_kept and key[0] not in topics and not reported.is_whole:
            continue
        where, elsewhere = ("ZooKeeper", "the API") if is_kept else ("the API", "ZooKeeper")
        yield _finding(
            f"{subject}/{key[0]}",
            Level.WARN,
            f"partition {key[1]} is there according to {where}, and not according to {elsewhere}",
            "Look at the controller's log: a topic may be half created, or half deleted (/admin/delete_topics).",
        )


def _partition(
    subject: str, key: tuple[str, int], kept: PartitionRegistration, reported: PartitionRegistration
) -> Iterator[Finding]:
    # A broker of 2.8 and older may not report the epoch.
    epochs_differ = reported.leader_epoch >= 0 and kept.leader_epoch != reported.leader_epoch
    if kept.leader != reported.leader or set(kept.isr) != set(reported.isr) or epochs_differ:
        yield _finding(
            f"{subject}/{key[0]}",
            Level.WARN,
            f"partition {key[1]}: ZooKeeper has {_describe_partition(kept)}, the API {_describe_partition(reported)}",
            _TELL_ANEW,
        )
    if kept.replicas and reported.replicas and kept.replicas != reported.replicas:
        yield _finding(
            f"{subject}/{key[0]}",
            Level.WARN,
            f"partition {key[1]}: ZooKeeper assigns it to {_brokers(kept.replicas)}, the API to "
            f"{_brokers(reported.replicas)}",
            _TELL_ANEW,
        )


def _endpoints(endpoints: frozenset[str]) -> str:
    return ", ".join(sorted(endpoints)) or "no address"


def _brokers(replicas: tuple[int, ...]) -> str:
    return ", ".join(map(str, replicas)) or "nobody"


def _describe_partition(partition: PartitionRegistration) -> str:
    isr = ", ".join(map(str, sorted(partition.isr)))
    return f"leader {partition.leader} in epoch {partition.leader_epoch} with {isr} in sync"


def _finding(subject: str, level: Level, message: str, hint: str) -> Finding:
    return Finding(level=level, subject=subject, check="zookeeper", message=message, hint=hint)
