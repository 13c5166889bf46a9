"""The members of the namespaces of a cluster, and the links that they are attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from isthmus.errors import ClusterError, GateNotMet
from isthmus.kafka.admin.access import describe_rules
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.kafka.transactions.aborting import abort_transactions
from isthmus.kafka.transactions.finishing import finish
from isthmus.ledger.documents.gateways import prepared_commits
from isthmus.memory.leaving import is_writing
from isthmus.memory.links import read_ledger
from isthmus.model.gateways.prepared import MaybeCommitted
from isthmus.model.kafka.rights import Resource
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.problem import Problem, problem_of
from isthmus.namespaces.namespace import Attachment, Members


class EndedTransactions(NamedTuple):
    """Open transactions that were aborted, and those that may have been committed at their source."""

    aborted: tuple[OpenTransaction, ...] = ()
    in_doubt: tuple[MaybeCommitted, ...] = ()


async def ended_in(client: Client, namespace: Namespace) -> EndedTransactions:
    """Abort the open transactions in the topics of a namespace; those of links only once no link writes to the topics.
    A mirrored transaction that is known to be committed at the source is committed here as well.
    """
    topics = namespace.members(await _names(client, "topic"))
    memory = await read_ledger(client)
    is_written = any(is_writing(memory.of(link), lambda topic: topic in topics) for link in memory.links)
    unknown: tuple[MaybeCommitted, ...] = ()
    if not is_written:
        prepared = [
            each for link in memory.links for each in prepared_commits(link, memory.of(link).documents.values())
        ]
        unknown = (await finish(client, prepared, topics)).unknown
    return EndedTransactions(await abort_transactions(client, topics, mirrored=not is_written), unknown)


async def check_let_go(client: Client, namespace: Namespace, links: Iterable[Declaration], *, cluster_id: str) -> None:
    """Require that no task may still write to a namespace of a cluster by a link that has detached it.

    :raises GateNotMet: A task may.
    :raises ClusterError: The cluster's ledger cannot be read.
    """
    former = [
        link.name
        for link in links
        if link.target.cluster_id == cluster_id and any(each.target.overlaps(namespace) for each in link.detached)
    ]
    if namespace.kind != "topic" or not former:
        return
    memory = await read_ledger(client)
    for link in former:
        if is_writing(memory.of(link), namespace.holds):
            raise GateNotMet(
                f"tasks of link {link} may still write to namespace {namespace} of {client.cluster.alias}",
                hint=f"isthmus link detach {link} waits until they have ended.",
            )


def attachments(links: Iterable[Declaration], cluster_id: str, namespace: Namespace) -> Iterable[Attachment]:
    """Yield the attachments of a namespace of a cluster."""
    for link in links:
        for each in link.maps:
            if link.source.cluster_id == cluster_id and each.source == namespace:
                yield Attachment(link=link.name, leads=True, other=each.target, other_cluster=link.target.alias)
            if link.target.cluster_id == cluster_id and each.target == namespace:
                yield Attachment(link=link.name, leads=False, other=each.source, other_cluster=link.source.alias)


async def members_of(client: Client, kinds: Iterable[NamespaceKind]) -> Members:
    """Read the names of these kinds that a cluster has."""
    names: dict[NamespaceKind, tuple[str, ...]] = {}
    problems: dict[NamespaceKind, Problem] = {}
    for kind in sorted(kinds):
        try:
            names[kind] = await _names(client, kind)
        except ClusterError as error:
            problems[kind] = problem_of(error)
    return Members(names=names, problems=problems)


async def _names(client: Client, kind: NamespaceKind) -> tuple[str, ...]:
    """Read the topics or groups of a cluster, or the principals that it has access rules for.

    :raises ClusterError: They cannot be read.
    """
    match kind:
        case "topic":
            return tuple((await client.metadata(None)).topics)
        case "group":
            outcomes = await list_groups(client)
            for error in outcomes.errors.values():
                raise error
            return tuple(merge_listings(outcomes))
        case "principal":
            found = await asyncio.gather(
                *(describe_rules(client, resource) for resource in (Resource.TOPIC, Resource.GROUP))
            )
            return tuple({rule.principal for rules in found for rule in rules})
