"""The states of namespaces: ask every leader whether their declarations are in force."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isthmus.access.enforcement import keeping, made_rules
from isthmus.errors import ClusterError
from isthmus.kafka.admin.access import rules_by_broker
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.aborting import transactions_in
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.access import Rule
from isthmus.model.kafka.partitions import NO_LEADER
from isthmus.model.kafka.rights import Resource
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.writability import Probe, Wish, is_enforced, waits_for
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.problem import Problem, problem_of
from isthmus.namespaces.namespace import NamespaceReport

BETWEEN_LOOKS_S: Final = 0.5
"""The time (s) between two looks at the ends of logs."""
_RESOURCES: Final[dict[NamespaceKind, Resource]] = {"topic": Resource.TOPIC, "group": Resource.GROUP}
_RulesByBroker = Mapping[int, frozenset[Rule] | Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """The open transactions and growing logs of some topics, or why they are unknown."""

    transactions: tuple[OpenTransaction, ...] = ()
    grown: tuple[PartitionKey, ...] = ()
    problem: Problem | None = None

    def of(self, namespace: Namespace, *, is_followed: bool) -> Probe:
        """Return the part for one namespace; if a link writes to it its logs may grow."""
        grown = () if is_followed else self.grown
        return Probe(
            transactions=tuple(each for each in self.transactions if namespace.holds(each.topic)),
            grown=tuple(f"{topic}-{partition}" for topic, partition in grown if namespace.holds(topic)),
            problem=self.problem,
        )


async def probe_namespaces(client: Client, reports: Sequence[NamespaceReport]) -> tuple[NamespaceReport, ...]:
    """Return namespaces with what they still wait for until their declarations are in force. Namespaces that were never
    reserved are not probed.

    The logs of a reserved namespace that no link writes to must not grow for half a second.

    :raises ClusterError: No broker answers.
    """
    wishes = [_wish(client.cluster, each) for each in reports]
    asked = {
        _RESOURCES[each.namespace.kind]
        for each, wish in zip(reports, wishes, strict=True)
        if wish.needs_rules and each.namespace.kind in _RESOURCES
    }
    rules = {resource: await _rules(client, resource) for resource in sorted(asked)}
    closed = [each for each in reports if each.is_reserved and each.namespace.kind == "topic"]
    logs = await _logs(client, _topics(closed), _topics(each for each in closed if not each.follows))
    return tuple(
        replace(report, waits_for=waits_for(report.namespace, wish, _probe(report, rules, logs)))
        for report, wish in zip(reports, wishes, strict=True)
    )


def _wish(cluster: Cluster, report: NamespaceReport) -> Wish:
    keep = keeping(cluster, report.registers)
    return Wish(
        is_reserved=report.is_reserved,
        is_enforced=is_enforced(report.registers),
        keep=keep.principals,
        has_super_user=keep.has_super_user,
        made=made_rules(report.registers),
    )


def _probe(report: NamespaceReport, rules: Mapping[Resource, _RulesByBroker], logs: _Logs) -> Probe:
    kind = report.namespace.kind
    known = rules.get(_RESOURCES[kind], {}) if kind in _RESOURCES else {}
    if kind != "topic":
        return Probe(rules=known)
    if report.members is None:
        return Probe(rules=known, problem=report.problem)
    return replace(logs.of(report.namespace, is_followed=report.follows), rules=known)


def _topics(reports: Iterable[NamespaceReport]) -> frozenset[str]:
    return frozenset(name for each in reports for name in each.members or ())


async def _rules(client: Client, resource: Resource) -> _RulesByBroker:
    answers = await rules_by_broker(client, resource)
    return {
        broker: problem_of(found) if isinstance(found, ClusterError) else found for broker, found in answers.items()
    }


async def _logs(client: Client, topics: Collection[str], still: Collection[str]) -> _Logs:
    """Find the open transactions in `topics`, and the partitions of `still` that grow."""
    try:
        before = await _ends(client, still)
        transactions = await transactions_in(client, topics)
        if before:
            await asyncio.sleep(BETWEEN_LOOKS_S)
        after = await _ends(client, still)
    except ClusterError as error:
        return _Logs(problem=problem_of(error))
    grown = tuple(sorted(key for key, end in after.items() if before.get(key, end) != end))
    return _Logs(transactions=transactions, grown=grown)


async def _ends(client: Client, topics: Collection[str]) -> dict[PartitionKey, int]:
    if not topics:
        return {}
    led = [each for each in partitions_of(await client.metadata(sorted(topics))) if each.leader != NO_LEADER]
    found = await log_ranges(client, [(each.topic, each.partition) for each in led])
    for error in found.errors.values():
        raise error
    return {key: log.end for key, log in found.values.items()}
