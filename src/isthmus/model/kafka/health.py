"""Findings about the state of a cluster: named, with the effect on producers and the remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from isthmus.model.cluster import is_cluster_id
from isthmus.model.kafka.description import BrokerDescription, Quorum, QuorumReplica
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.partitions import BrokerLoad, Condition, PartitionState
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.text.wording import format_count

IMBALANCE_PERCENT_MAX: Final = 10
"""Kafka's own measure and default (leader.imbalance.per.broker.percentage)."""
SKEW_PERCENT_MAX: Final = 50
_SKEW_LEADERS_MIN: Final = 10
_QUORUM_LAG_MS_MAX: Final = 5_000
_RANGES_MAX: Final = 12
_LEVELS: Final = {
    Condition.OFFLINE: Level.ERROR,
    Condition.UNDER_MIN_ISR: Level.ERROR,
    Condition.UNDER_REPLICATED: Level.WARN,
    Condition.TOO_FEW_REPLICAS: Level.WARN,
    Condition.NOT_PREFERRED: Level.WARN,
}


def cluster_id_findings(subject: str, cluster_id: str) -> Iterator[Finding]:
    """Yield a finding if the cluster's id is not valid (seed 003)."""
    if not is_cluster_id(cluster_id):
        yield Finding(
            level=Level.ERROR,
            subject=subject,
            check="cluster id",
            message=f"{cluster_id!r} is no cluster id: at most 22 letters, digits, '-' and '_' are allowed",
            hint="Isthmus knows clusters by their ids: find the service that answers in place of Kafka's brokers.",
        )


def broker_findings(subject: str, brokers: Iterable[BrokerDescription]) -> Iterator[Finding]:
    """Yield a finding for each broker that is registered but serves no clients."""
    for broker in brokers:
        if broker.is_fenced:
            yield Finding(
                level=Level.WARN,
                subject=subject,
                check="brokers",
                message=f"broker {broker.node_id} is fenced: it is registered, and serves no client",
                hint="Start it again and look at its log; if it is gone for good, move its replicas and unregister it.",
            )


def partition_findings(
    subject: str, partitions: Iterable[PartitionState], *, cluster: str | None = None
) -> Iterator[Finding]:
    """Yield findings about partitions: one for each condition of a topic, the worst first.

    The findings' subjects are `subject/topic`; `cluster` is the alias hints name, if `subject` is not one.
    """
    suffering: dict[tuple[Condition, str], list[PartitionState]] = defaultdict(list)
    for partition in partitions:
        for condition in partition.conditions:
            suffering[condition, partition.topic].append(partition)
    order = list(Condition)
    for condition, topic in sorted(suffering, key=lambda key: (order.index(key[0]), key[1])):
        found = suffering[condition, topic]
        message, hint = _explain(condition, found, cluster or subject)
        yield Finding(
            level=_LEVELS[condition],
            subject=f"{subject}/{topic}",
            check=str(condition),
            message=f"{_partitions(p.partition for p in found)} {message}",
            hint=hint,
        )


def _explain(condition: Condition, found: Sequence[PartitionState], cluster: str) -> tuple[str, str]:
    if condition is Condition.NOT_PREFERRED:
        return _led_elsewhere(found, cluster)
    away = _nodes(replica for partition in found for replica in partition.out_of_sync)
    in_sync = min(len(partition.isr) for partition in found)
    least = max((partition.min_insync_replicas or 1) for partition in found)
    if condition is Condition.OFFLINE:
        last = _nodes(replica for partition in found for replica in partition.isr or partition.replicas)
        return (
            "without a leader: nothing can be read, and producers with acks 0, 1 and all alike wait and then fail "
            "(after delivery.timeout.ms)",
            f"Start one of the brokers that were in sync last: {last}. An unclean election gives up records.",
        )
    if condition is Condition.UNDER_MIN_ISR:
        return (
            f"with {format_count(in_sync, 'in-sync replica')} where min.insync.replicas is {least}: producers with "
            "acks=all are refused (NOT_ENOUGH_REPLICAS) and try again until delivery.timeout.ms; with acks=1 and "
            "acks=0 records are taken, and lost if the replicas left fail (where eligible leader replicas, KIP-966, "
            "are kept, consumers cannot read them meanwhile)",
            f"Bring brokers {away} back in sync. Isthmus writes with acks=all and waits until then.",
        )
    if condition is Condition.TOO_FEW_REPLICAS:
        there = format_count(min(len(partition.replicas) for partition in found), "replica")
        return (
            f"with {there} where min.insync.replicas is {least}: producers with "
            "acks=all are refused by older brokers (2.8) and served by newer ones (3.9), which are content with all "
            "replicas there are; acks 0 and 1 work as ever",
            "Lower min.insync.replicas of the topic, or add replicas (isthmus cluster reassign).",
        )
    spare = max(in_sync - least, 0)
    return (
        f"with replicas that are not in sync (on brokers {away}): producers with acks=all are served while "
        f"min.insync.replicas ({least}) are, so {spare} more may fail; with acks=1 and acks=0 a record is lost if the "
        "leader fails before a follower has it",
        f"Look at brokers {away}: stopped, slow, out of disk, or a reassignment under way.",
    )


def _led_elsewhere(found: Sequence[PartitionState], cluster: str) -> tuple[str, str]:
    waiting = [partition for partition in found if partition.preferred not in partition.isr]
    if waiting:
        hint = f"Bring brokers {_nodes(p.preferred for p in waiting)} back in sync; they lead again after an election."
    else:
        hint = f"Run: isthmus cluster elect-leaders {cluster} --preferred --topic {found[0].topic}"
    return (
        f"led by brokers {_nodes(p.leader for p in found)} in the place of the preferred "
        f"{_nodes(p.preferred for p in found)}: acks 0, 1 and all work as ever, only the load is spread otherwise",
        hint,
    )


def skew_findings(subject: str, loads: Sequence[BrokerLoad]) -> Iterator[Finding]:
    """Yield findings about brokers that lead far fewer partitions than they should, and assignments
    that overload one.
    """
    for load in loads:
        percent = 100 * load.displaced // load.preferred if load.preferred else 0
        if percent > IMBALANCE_PERCENT_MAX:
            yield Finding(
                level=Level.WARN,
                subject=subject,
                check="leader skew",
                message=f"broker {load.node_id} leads {format_count(load.leaders, 'partition')} and not "
                f"{load.displaced:,} of the {format_count(load.preferred, 'that prefers it', 'that prefer it')} "
                f"({percent} %): the other brokers do its work",
                hint=f"When it is in sync, run: isthmus cluster elect-leaders {subject} --preferred",
            )
    total = sum(load.preferred for load in loads)
    for load in loads:
        even = total / len(loads)
        if load.preferred >= _SKEW_LEADERS_MIN and load.preferred > even * (1 + SKEW_PERCENT_MAX / 100):
            yield Finding(
                level=Level.WARN,
                subject=subject,
                check="leader skew",
                message=f"broker {load.node_id} is the preferred leader of {load.preferred:,} of "
                f"{format_count(total, 'partition')}, {even:,.0f} would be even: no election changes that",
                hint=f"Run: isthmus cluster reassign {subject} --plan --to plan.json",
            )


def quorum_findings(subject: str, quorum: Quorum) -> Iterator[Finding]:
    """Yield findings about the leader of the controllers, and how many of them may still fail."""
    if quorum.leader_id is None:
        yield leaderless("the controllers have no leader", subject)
        return
    behind = [replica for replica in quorum.voters if is_behind(replica)]
    majority = len(quorum.voters) // 2 + 1
    spare = len(quorum.voters) - len(behind) - majority
    for replica in behind:
        yield Finding(
            level=Level.WARN if spare > 0 else Level.ERROR,
            subject=subject,
            check="quorum",
            message=f"voter {replica.node_id} {_lag(replica)}: {max(spare, 0)} more may fail before the "
            f"{format_count(len(quorum.voters), 'controller has', 'controllers have')} no majority",
            hint=f"Start controller {replica.node_id} again, and look at its log and its network.",
        )
    for replica in quorum.observers:
        if is_behind(replica):
            yield Finding(
                level=Level.WARN,
                subject=subject,
                check="quorum",
                message=f"broker {replica.node_id} {_lag(replica)}: it acts on outdated metadata, or not at all",
                hint=f"Look at broker {replica.node_id} and its way to the controllers.",
            )


def leaderless(reason: str, subject: str) -> Finding:
    """Return the finding that no controller leads, or none answers."""
    return Finding(
        level=Level.ERROR,
        subject=subject,
        check="quorum",
        message=f"{reason}: topics, configurations and leaders cannot change",
        hint="Look at the controllers' logs: a majority of the voters has to be there and to reach each other.",
    )


def is_behind(replica: QuorumReplica) -> bool:
    """Return whether a follower of the metadata log is away or far behind; Kafka writes to it twice a second."""
    return replica.log_end is None or (replica.lag_ms or 0) > _QUORUM_LAG_MS_MAX


def transaction_findings(
    subject: str, transactions: Iterable[OpenTransaction], *, now_ms: int, cluster: str | None = None
) -> Iterator[Finding]:
    """Yield a finding for each transaction that holds the last stable offset back although no producer will end it, or
    longer than it may.
    """
    for transaction in transactions:
        where = f"{subject}/{transaction.topic}"
        name = f"transaction {transaction.transactional_id} of " if transaction.transactional_id else ""
        since = "" if transaction.since_ms is None else f" for {_duration(now_ms - transaction.since_ms)}"
        held = (
            f"partition {transaction.partition}: {name}producer {transaction.producer_id} (epoch "
            f"{transaction.producer_epoch}) holds the last stable offset at {transaction.first_offset}{since}, and "
            f"{format_count(transaction.held_records, 'record')} with it"
        )
        if transaction.state is TransactionState.HANGING:
            yield Finding(
                level=Level.ERROR,
                subject=where,
                check="hanging transaction",
                message=f"{held}: no coordinator knows it, so none will end it. Consumers at read_committed and "
                "the mirror wait for ever",
                hint="Unless an access rule hides its transactional id from us, end it: kafka-transactions "
                f"--bootstrap-server ({cluster or subject}) abort --topic {transaction.topic} --partition "
                f"{transaction.partition} --start-offset {transaction.first_offset}",
            )
        elif transaction.state is TransactionState.MIRRORED:
            yield Finding(
                level=Level.WARN,
                subject=where,
                check="open transaction",
                message=f"{held}: a link of Isthmus copies an aborted transaction of its source into it",
                hint="The link ends it when it goes on. Do not abort it by hand: the mirror would have an offset too "
                "many.",
            )
        elif _is_overdue(transaction, now_ms):
            yield Finding(
                level=Level.WARN,
                subject=where,
                check="open transaction",
                message=f"{held}, longer than its timeout of {_duration(transaction.timeout_ms or 0)}",
                hint=f"Look at its coordinator, broker {transaction.coordinator}, which should have ended it.",
            )


def _is_overdue(transaction: OpenTransaction, now_ms: int) -> bool:
    if transaction.timeout_ms is None or transaction.started_ms is None:
        return False
    # The coordinator looks for overdue transactions every ten seconds.
    return now_ms - transaction.started_ms > transaction.timeout_ms + 20_000


def _lag(replica: QuorumReplica) -> str:
    if replica.lag_ms is None or replica.log_end is None:
        return "has never been seen"
    return f"is {format_count(replica.lag_records or 0, 'record')} and {_duration(replica.lag_ms)} behind"


def _duration(ms: int) -> str:
    seconds = max(ms, 0) / 1000
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _nodes(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(nodes)))) or "none"


def _partitions(numbers: Iterable[int]) -> str:
    """Format as `partition 3`, or `partitions 0-4, 7`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges[:_RANGES_MAX])
    more = f" and {format_count(len(ranges) - _RANGES_MAX, 'more range')}" if len(ranges) > _RANGES_MAX else ""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"partition {shown}" if is_one else f"partitions {shown}{more}"
