"""Access rules that keep readers away from followers of a link that is SYNCING (KIP-986, footnote 7): created where no
gateway hides the topics, recorded before they are created, and deleted once the link is in sync or has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from isthmus.access.enforcement import (
    UNREAD,
    Keeping,
    examine_reservation,
    keeping,
    made_against_readers,
    make,
    own_login,
    take_back,
)
from isthmus.errors import PlanRefused
from isthmus.kafka.admin.brokers import Operation, describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.gateways import hidden_by, pair_words
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.memory.closed import has_gateway
from isthmus.memory.declarations import Declarations
from isthmus.memory.links import LedgerMemory, read_ledger
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.access import EVERYBODY, Rule
from isthmus.model.kafka.rights import on_cluster
from isthmus.model.links.reservation import READ, rule_values
from isthmus.model.links.writability import is_enforced
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem
from isthmus.model.registers import Registers, find_contested, register_text


class ReadingRules(NamedTuple):
    """The changes to rules against readers of a namespace with these registers: rules that are `missing`, rules of
    Isthmus that are `over`, that is to be deleted; or the problem that prevents rules.
    """

    namespace: Namespace
    registers: Registers
    missing: tuple[Rule, ...] = ()
    over: tuple[Rule, ...] = ()
    problem: Problem | None = None


def hidden_at(memory: LedgerMemory, cluster_id: str | None) -> dict[Namespace, frozenset[str]]:
    """Find the namespaces of the cluster with this id that clients must not read yet, by its ledger: each with the
    principals of the gateways that read there to prove what the follower has; "" for a principal that is not known.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    found = dict[Namespace, frozenset[str]]()
    for link in memory.links:
        documents = memory.of(link).documents.values()
        known = declaration_of(link, documents)
        if not known.is_whole or known.target.cluster_id != cluster_id:
            continue
        gateways = frozenset(each.principal for each in pair_words(link, known.mode_said, documents).values())
        found |= dict.fromkeys(hidden_by(known, documents), gateways)
    return found


def unread_still(memory: LedgerMemory, cluster_id: str | None, link: str) -> tuple[Namespace, ...]:
    """Find the namespaces of the cluster with this id that a link attaches or has detached, and for which the ledger
    has rules against readers though clients may read them again.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    ruled = [
        each.namespace
        for each in NamespaceDocument.find_all(memory.find_unlinked().values())
        if each.cluster == cluster_id and made_against_readers(each.registers)
    ]
    if not ruled:
        return ()
    known, hidden = declaration_of(link, memory.of(link).documents.values()), hidden_at(memory, cluster_id)
    own = {each.target for each in (*known.maps, *known.detached)}
    return tuple(sorted((each for each in ruled if each in own and each not in hidden), key=str))


async def remembers_rules(client: Client) -> bool:
    """Whether a namespace of a cluster remembers rules against its readers.

    :raises ClusterError: Its ledger cannot be read.
    """
    documents = NamespaceDocument.find_all((await read_ledger(client)).find_unlinked().values())
    return any(made_against_readers(each.registers) for each in documents)


async def examine_reading(client: Client, cluster: Cluster) -> list[ReadingRules]:
    """Find the changes that rules against readers of a cluster need; none where all is as it should be.

    :raises PlanRefused: A newer Isthmus wrote its ledger.
    :raises ClusterError: The cluster does not answer.
    """
    described = await describe_cluster(client)
    cluster_id, may_make = described.cluster_id, Operation.ALTER in described.operations
    memory = await read_ledger(client)
    hidden, is_behind = hidden_at(memory, cluster_id), has_gateway(memory, cluster_id, hides=True)
    found = []
    for document in NamespaceDocument.find_all(memory.find_unlinked().values()):
        if document.cluster != cluster_id:
            continue
        made, gateways = made_against_readers(document.registers), hidden.get(document.namespace)
        if gateways is None or not is_enforced(document.registers):
            found.append(ReadingRules(document.namespace, document.registers, over=made))
        elif made or not is_behind:
            found.append(await _examine(client, cluster, document, made, gateways, may_make=may_make))
    return [each for each in found if each.missing or each.over or each.problem]


async def _examine(
    client: Client,
    cluster: Cluster,
    document: NamespaceDocument,
    made: Collection[Rule],
    gateways: Collection[str],
    *,
    may_make: bool,
) -> ReadingRules:
    namespace, registers = document.namespace, document.registers
    keep, known = keeping(cluster, registers), {each for each in gateways if each}
    # With super users a rule can deny everybody: then only the principals of the link itself are safe.
    safe = {*own_login(cluster).principals, *keep.principals} if keep.has_super_user else {*keep.principals, *known}
    if strangers := sorted(each or "a principal that its file does not name" for each in gateways if each not in safe):
        why = f"a gateway reads there as {strangers[0]}, whom rules could keep out as well"
        return ReadingRules(namespace, registers, over=tuple(made), problem=_unhidden_problem(namespace, why))
    # Gateways record their principal once they know of the link: rules may have been created before.
    wrong = {*keep.principals, *known, *(() if keep.has_super_user else (EVERYBODY,))}
    over = tuple(rule for rule in made if rule.principal in wrong)
    keep = Keeping(principals=tuple(sorted(safe)), has_super_user=keep.has_super_user)
    reservation = await examine_reservation(client, namespace, keep, without=over, operations=(READ,))
    if isinstance(reservation, Problem):
        return ReadingRules(namespace, registers, over=over, problem=_unhidden_problem(namespace, reservation.message))
    if reservation.everybody:
        why = "a rule allows all users to read, which cannot be denied to all but the link"
        return ReadingRules(namespace, registers, over=over, problem=_unhidden_problem(namespace, why))
    if reservation.missing and not may_make:
        why = f"access rules take {on_cluster('ALTER')}, which is missing"
        return ReadingRules(namespace, registers, over=over, problem=_unhidden_problem(namespace, why))
    return ReadingRules(namespace, registers, missing=reservation.missing, over=over)


def _unhidden_problem(namespace: Namespace, why: str) -> Problem:
    return Problem(
        f"topics {namespace} can be read while the link is SYNCING: {why}",
        "Have clients read through a gateway before the target, or give gateways and the link the same login there.",
    )


async def settle_reading(declarations: Declarations, cluster: Cluster, *, makes: bool = True) -> list[ReadingRules]:
    """Delete the rules against readers of a cluster that are over, and create the missing ones if it `makes` them;
    return those that cannot be created.

    :raises PlanRefused: A newer Isthmus wrote its ledger.
    :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call goes on.
    """
    client = declarations.client(cluster.alias)
    found = await examine_reading(client, cluster)
    for each in found:
        if each.over:
            await _take_back(declarations, cluster, each)
        if each.missing and makes:
            await _make(declarations, cluster, each)
    return [each for each in found if each.problem is not None]


async def _make(declarations: Declarations, cluster: Cluster, found: ReadingRules) -> None:
    """Record rules in the ledger before they are created, so that none is left behind unknown."""
    client = declarations.client(cluster.alias)
    if not await _remember_rules(declarations, cluster, found, lambda known: (*known, *found.missing)):
        return
    await make(client, found.missing)
    memory, cluster_id = await read_ledger(client), (await describe_cluster(client)).cluster_id
    held = [
        each
        for each in NamespaceDocument.find_all(memory.find_unlinked().values())
        if (each.cluster, each.namespace) == (cluster_id, found.namespace)
    ]
    is_known = any(set(found.missing) <= set(made_against_readers(each.registers)) for each in held)
    if not is_known or found.namespace not in hidden_at(memory, cluster_id):
        # Another controller may have deleted them before they were created here.
        await take_back(client, found.missing)


async def _take_back(declarations: Declarations, cluster: Cluster, found: ReadingRules) -> None:
    client = declarations.client(cluster.alias)
    await take_back(client, found.over)
    if await _remember_rules(
        declarations, cluster, found, lambda known: (each for each in known if each not in found.over)
    ):
        # A controller that recorded them before may have created them since, as it still saw them recorded.
        await take_back(client, found.over)


async def _remember_rules(
    declarations: Declarations,
    cluster: Cluster,
    found: ReadingRules,
    after: Callable[[tuple[Rule, ...]], Iterable[Rule]],
) -> bool:
    """Record the rules that `after` returns in the registers of the namespace; whether they were recorded. They are
    not if another controller changed these registers since they were read: the next look goes on.
    """

    def build_values(held: NamespaceDocument | None) -> dict[str, Any]:
        registers = () if held is None else held.registers
        values = {UNREAD: rule_values(dict.fromkeys(after(made_against_readers(registers))))}
        wanted = {name: register_text(value) for name, value in values.items()}
        if held is None or find_contested(found.registers, registers, wanted) is not None:
            raise PlanRefused(f"namespace {found.namespace} of {cluster.alias} was changed meanwhile")
        return values

    try:
        await declarations.write_namespace(cluster.alias, found.namespace, build_values)
    except PlanRefused:
        return False
    return True
