"""The namespaces of one cluster (KIP-986): create, describe, change and delete them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from isthmus.access.enforcement import (
    ENFORCED,
    Keeping,
    await_closed,
    check_allowed,
    examine_reservation,
    keeping,
    made_against_readers,
    made_rules,
    make,
    outdated_rules,
    require,
    take_back,
    with_own,
)
from isthmus.access.readers import settle_reading
from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.memory.attaching import check_prefix
from isthmus.memory.closed import has_gateway
from isthmus.memory.declarations import Declarations, namespace_document
from isthmus.memory.declared import Declared
from isthmus.memory.links import read_ledger
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.kafka.access import Rule
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.reservation import rule_values
from isthmus.model.links.writability import KEPT, is_enforced
from isthmus.model.namespace import Namespace
from isthmus.model.problem import cluster_error
from isthmus.model.registers import RESERVED, Registers
from isthmus.model.text.wording import which_are
from isthmus.namespaces.contest import check_deletable, format_namespace, require_unchanged
from isthmus.namespaces.members import EndedTransactions, attachments, check_let_go, ended_in, members_of
from isthmus.namespaces.namespace import ASYNC_ONLY, NamespaceReport
from isthmus.namespaces.probing import probe_namespaces


class AsyncNamespaces:
    """The namespaces of one cluster: `fabric.cluster(alias).namespaces`. With `dry_run` nothing is written."""

    def __init__(self, cluster: Cluster, session: ClientSession, ledger: LedgerSettings) -> None:
        self._cluster = cluster
        self._session = session
        self._ledger = ledger

    async def all(self) -> tuple[NamespaceReport, ...]:
        """Return the declared namespaces, by kind and name.

        :raises ClusterError: The cluster's ledger cannot be read.
        """
        declarations = self._declarations()
        reports = await self._reports(declarations, await self._look(declarations))
        return await probe_namespaces(declarations.client(self._cluster.alias), reports)

    async def describe(self, namespace: Namespace) -> NamespaceReport:
        """Describe one namespace.

        :raises ConfigError: It was not declared.
        :raises ClusterError: The cluster's ledger cannot be read.
        """
        declarations = self._declarations()
        client = declarations.client(self._cluster.alias)
        (found,) = await probe_namespaces(client, [await self._describe_known(declarations, namespace)])
        if not found.is_reserved:
            return found
        keep = keeping(self._cluster, found.registers)
        return replace(found, in_force=await examine_reservation(client, namespace, keep))

    async def create(
        self, namespace: Namespace, *, reserved: bool = False, async_only: bool = False, dry_run: bool = False
    ) -> NamespaceReport:
        """Declare a namespace.

        :raises PlanRefused: It is declared already, or its prefix is the whole name of a topic among others.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        values = {RESERVED: reserved, ASYNC_ONLY: async_only}
        return await self._change(namespace, values, is_new=True, dry_run=dry_run)

    async def update(
        self,
        namespace: Namespace,
        *,
        reserved: bool | None = None,
        async_only: bool | None = None,
        dry_run: bool = False,
    ) -> NamespaceReport:
        """Change a namespace; its kind and its prefix cannot change. When it is no longer to be reserved, transactions
        that are open in its topics are aborted first, so that new writers find none undecided.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It follows another one and so stays reserved.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        values = {RESERVED: reserved, ASYNC_ONLY: async_only}
        given = {name: value for name, value in values.items() if value is not None}
        return await self._change(namespace, given, is_new=False, dry_run=dry_run)

    async def delete(self, namespace: Namespace, *, dry_run: bool = False) -> NamespaceReport:
        """Delete a namespace from the ledger; its topics stay. If it was reserved, transactions that are open in its
        topics are aborted first, as by `update`.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It is attached to a link.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        declarations = self._declarations()
        declared = await self._look(declarations)
        (found,) = await probe_namespaces(
            declarations.client(self._cluster.alias),
            [self._find_report(await self._reports(declarations, declared), namespace)],
        )
        if found.attached:
            link = found.attached[0].link
            raise PlanRefused(
                f"namespace {namespace} of {self._cluster.alias} is attached to link {link}",
                hint=f"isthmus link detach {link} first.",
            )
        if found.is_reserved:
            await self._check_let_go(declarations, declared, namespace)
        if dry_run:
            return found
        ended = EndedTransactions()
        if found.is_reserved and namespace.kind == "topic":
            ended = await ended_in(declarations.client(self._cluster.alias), namespace)
        await self._delete(declarations, found)
        return replace(found, aborted=ended.aborted, in_doubt=ended.in_doubt)

    async def enforce(
        self,
        namespace: Namespace,
        *,
        keep: Collection[str] = (),
        super_user: bool = False,
        dry_run: bool = False,
    ) -> NamespaceReport:
        """Reserve a namespace, and have access rules deny writes to all principals except those to `keep`: by default
        the login of the declared link that it follows by, or else of the configuration. With `super_user` rules do not
        apply to that login. Rules against principals that are to be kept now are deleted.

        :raises ConfigError: It was not declared, or no principal is given and the cluster has no such login as the
            link.
        :raises PlanRefused: Rules cannot close it, or would close it to the link as well.
        :raises NotAuthorized: The login may not create rules; nothing was written then.
        :raises ClusterError: A rule was rejected, a broker does not have it yet, or the ledger cannot be read or
            written; the namespace is not marked as closed before, and a repeated call goes on.
        """
        own = Keeping(principals=tuple(keep), has_super_user=super_user)
        declarations = self._declarations()
        declared = await self._look(declarations)
        known = self._find_report(await self._reports(declarations, declared), namespace)
        client = declarations.client(self._cluster.alias)
        own = own if own.principals else with_own(own, self._as_followed(declared, namespace))
        outdated = outdated_rules(known.registers, own)
        found = require(await examine_reservation(client, namespace, own, without=outdated), own, namespace)
        await check_allowed(client, found)
        if dry_run:
            return replace((await probe_namespaces(client, [known]))[0], in_force=found)
        await self._close(declarations, known, own, found.missing)
        return await self.describe(namespace)

    async def relax(self, namespace: Namespace, *, dry_run: bool = False) -> NamespaceReport:
        """Delete the access rules that `enforce` created, and no others. The namespace stays reserved.

        :raises ConfigError: It was not declared.
        :raises ClusterError: A rule was rejected, or the ledger cannot be read or written; a repeated call goes on.
        """
        declarations = self._declarations()
        known = await self._describe_known(declarations, namespace)
        if dry_run:
            return (await probe_namespaces(declarations.client(self._cluster.alias), [known]))[0]
        await self._open(declarations, known)
        return await self.describe(namespace)

    async def release(self, namespace: Namespace) -> tuple[OpenTransaction, ...]:
        """End the reservation of a namespace, if it was declared, and delete the rules created for it. Return the open
        transactions that were aborted.

        :raises PlanRefused: It follows another one.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        with contextlib.suppress(ConfigError):
            report = await self._change(namespace, {RESERVED: False}, is_new=False, dry_run=False)
            return report.aborted
        return ()

    async def renew(self, namespace: Namespace) -> tuple[Rule, ...]:
        """Create the missing rules of a namespace that is enforced; return those that were created.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: Rules cannot close it any more, or would close it to the link as well.
        :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call goes on.
        """
        declarations = self._declarations()
        known = await self._describe_known(declarations, namespace)
        if not is_enforced(known.registers):
            return ()
        client = declarations.client(self._cluster.alias)
        keep = keeping(self._cluster, known.registers)
        found = require(await examine_reservation(client, namespace, keep), keep, namespace)
        try:
            await self._close(declarations, known, keep, found.missing)
        except PlanRefused:
            # An operator changed it meanwhile, which counts; if it is still to be closed, the next call looks
            # again.
            return ()
        return found.missing

    async def _describe_known(self, declarations: Declarations, namespace: Namespace) -> NamespaceReport:
        return self._find_report(await self._reports(declarations, await self._look(declarations)), namespace)

    async def _close(
        self, declarations: Declarations, known: NamespaceReport, keep: Keeping, missing: Collection[Rule]
    ) -> None:
        """Record rules, create them, and mark the namespace as closed only then: no rule is left behind unknown, and
        gateways, which stop refusing at that mark, refuse other writers until brokers do.

        :raises PlanRefused: An operator changed the namespace meanwhile; the rules are not there.
        :raises ClusterError: A rule was rejected, or a broker does not have it yet.
        """
        alias, namespace = self._cluster.alias, known.namespace
        values = {RESERVED: True, KEPT: keep.register_value}

        def record_rules(held: NamespaceDocument | None) -> dict[str, Any]:
            rules = dict.fromkeys((*made_rules(require_unchanged(known, held, values)), *missing))
            return {RESERVED: True, ENFORCED: rule_values(rules)}

        document = await declarations.write_namespace(alias, namespace, record_rules)
        outdated = outdated_rules(document.registers, keep)
        needed = set(made_rules(document.registers)).difference(outdated)
        await make(declarations.client(alias), missing)
        await await_closed(declarations.client(alias), namespace, keep, without=outdated)

        def mark_closed(held: NamespaceDocument | None) -> dict[str, Any]:
            registers = require_unchanged(known, held, values)
            if not needed.issubset(made_rules(registers)):
                # To open a namespace that is not closed yet changes no register, but deletes the rules.
                by = next((f" by {register.by}" for register in registers if register.name == ENFORCED), "")
                raise PlanRefused(
                    f"{format_namespace(known)} was opened meanwhile{by}", hint="Ask again to close it all the same."
                )
            return {KEPT: keep.register_value}

        try:
            document = await declarations.write_namespace(alias, namespace, mark_closed)
        except PlanRefused:
            await self._give_up(declarations, namespace, missing)
            raise
        if outdated := outdated_rules(document.registers, keep):
            await self._take_back_rules(declarations, namespace, outdated)

    async def _give_up(self, declarations: Declarations, namespace: Namespace, made: Collection[Rule]) -> None:
        """Delete the rules created to close a namespace that another command changed meanwhile. A command that opened
        it deleted the rules that existed then; one that closed it for other principals needs the rules that it shares.
        """
        held = (await self._look(declarations)).namespaces[self._cluster.alias].get(namespace)
        if held is None:
            await take_back(declarations.client(self._cluster.alias), made)
            return
        needed: set[Rule] = set()
        if is_enforced(held.registers):
            outdated = outdated_rules(held.registers, keeping(self._cluster, held.registers))
            needed = set(made_rules(held.registers)).difference(outdated)
        if gone := [rule for rule in made if rule not in needed]:
            await self._take_back_rules(declarations, namespace, gone)

    async def _open(self, declarations: Declarations, known: NamespaceReport) -> NamespaceDocument:
        """Delete the rules created for a namespace; return its document after that."""
        values: dict[str, Any] = {KEPT: []}

        def mark_open(held: NamespaceDocument | None) -> dict[str, Any]:
            require_unchanged(known, held, values)
            return values

        # Written first, so that `renew` creates no more rules.
        document = await declarations.write_namespace(self._cluster.alias, known.namespace, mark_open)
        return await self._take_back_rules(declarations, known.namespace, made_rules(document.registers))

    async def _delete(self, declarations: Declarations, known: NamespaceReport) -> None:
        if is_enforced(known.registers) or made_rules(known.registers):
            known = replace(known, registers=(await self._open(declarations, known)).registers)
        known = await self._read_again(declarations, known)
        namespace = known.namespace
        await declarations.delete_namespace(self._cluster.alias, namespace, lambda held: check_deletable(known, held))

    async def _read_again(self, declarations: Declarations, known: NamespaceReport) -> NamespaceReport:
        """Delete the rules that kept readers out of a namespace while its link was SYNCING."""
        if not made_against_readers(known.registers):
            return known
        await settle_reading(declarations, self._cluster, makes=False)
        return await self._describe_known(declarations, known.namespace)

    async def _take_back_rules(
        self, declarations: Declarations, namespace: Namespace, rules: Collection[Rule]
    ) -> NamespaceDocument:
        """Delete rules that a namespace has recorded; return its document after that. A command that has closed it
        again meanwhile may have found the rules or created them again: they exist in the end.
        """
        client = declarations.client(self._cluster.alias)
        await take_back(client, rules)

        def forget_rules(held: NamespaceDocument | None) -> dict[str, Any]:
            registers = () if held is None else held.registers
            gone = rules
            if is_enforced(registers):
                gone = [rule for rule in outdated_rules(registers, keeping(self._cluster, registers)) if rule in rules]
            return {ENFORCED: rule_values([rule for rule in made_rules(registers) if rule not in gone])}

        document = await declarations.write_namespace(self._cluster.alias, namespace, forget_rules)
        if again := [rule for rule in made_rules(document.registers) if rule in rules]:
            await make(client, again)
        return document

    def _as_followed(self, declared: Declared, namespace: Namespace) -> Cluster:
        """Return the cluster with the login of the declared link by which a namespace follows, or as configured."""
        cluster_id = declared.ids[self._cluster.alias]
        for link in declared.links.living:
            if link.target.cluster_id == cluster_id and any(each.target == namespace for each in link.maps):
                return self._cluster.logged_in(link.target_login)
        return self._cluster

    def _check_asynchronous(self, declared: Declared, namespace: Namespace, values: Mapping[str, Any]) -> None:
        """Require that no synchronous link has a namespace that is to be asynchronous only.

        :raises PlanRefused: A synchronous link has it.
        """
        for link in declared.links.living if values.get(ASYNC_ONLY) else ():
            own = [each.source for each in link.maps if declared.alias_of(link.source) == self._cluster.alias]
            own += [each.target for each in link.maps if declared.alias_of(link.target) == self._cluster.alias]
            if link.mode == SYNC and any(map(namespace.overlaps, own)):
                raise PlanRefused(
                    f"namespace {namespace} of {self._cluster.alias} is in link {link.name}, which is synchronous",
                    hint=f"isthmus link update {link.name} --mode async first.",
                )

    async def _change(
        self, namespace: Namespace, values: Mapping[str, Any], *, is_new: bool, dry_run: bool
    ) -> NamespaceReport:
        declarations = self._declarations()
        declared = await self._look(declarations)
        reports = await self._reports(declarations, declared)
        known = next((each for each in reports if each.namespace == namespace), None)
        if is_new and known is not None:
            raise self._declared_already(namespace)
        self._check_asynchronous(declared, namespace, values)
        if is_new:
            await check_prefix(declarations.client(self._cluster.alias), namespace)
        if not is_new:
            known = self._find_report(reports, namespace)
            self._check_following(known, values)
            if known.is_reserved and values.get(RESERVED) is False:
                await self._check_let_go(declarations, declared, namespace)
        ended = EndedTransactions()
        client = declarations.client(self._cluster.alias)
        is_released = known is not None and values.get(RESERVED) is False and not dry_run
        if known is not None and known.is_reserved and is_released and namespace.kind == "topic":
            # Before writers are let in: their log must not contain transactions that began before.
            ended = await ended_in(client, namespace)
        wanted = {**values, KEPT: []} if is_released else values

        def choose_values(held: NamespaceDocument | None) -> Mapping[str, Any]:
            if known is None and held is not None:
                raise self._declared_already(namespace)
            registers = () if known is None else require_unchanged(known, held, wanted)
            # Where it is released, `renew` must create no more rules.
            return wanted if is_enforced(registers) else values

        before: Registers = () if known is None else known.registers
        cluster_id = declared.ids[self._cluster.alias]
        document = namespace_document(namespace, cluster_id, before, values)
        if document.registers != before and not dry_run:
            document = await declarations.write_namespace(self._cluster.alias, namespace, choose_values)
        (report,) = await self._reports(declarations, declared, [document])
        if is_released and made_rules(report.registers):
            # It is RELEASING until then; a repeated call resumes an interrupted release here.
            await self._take_back_rules(declarations, namespace, made_rules(document.registers))
            report = await self._describe_known(declarations, namespace)
        report = await self._read_again(declarations, report)
        return replace((await probe_namespaces(client, [report]))[0], aborted=ended.aborted, in_doubt=ended.in_doubt)

    def _declared_already(self, namespace: Namespace) -> PlanRefused:
        return PlanRefused(
            f"namespace {namespace} of {self._cluster.alias} is declared already",
            hint="isthmus namespace update changes it.",
        )

    def _check_following(self, known: NamespaceReport, values: Mapping[str, Any]) -> None:
        following = [each for each in known.attached if not each.leads]
        if following and values.get(RESERVED) is False:
            link = following[0].link
            raise PlanRefused(
                f"namespace {known.namespace} of {self._cluster.alias} follows {following[0].other} of "
                f"{following[0].other_cluster} by link {link}",
                hint=f"A namespace that follows has one writer: isthmus link detach {link} first.",
            )

    async def _check_let_go(self, declarations: Declarations, declared: Declared, namespace: Namespace) -> None:
        alias = self._cluster.alias
        cluster_id = declared.ids[alias]
        await check_let_go(declarations.client(alias), namespace, declared.links.values(), cluster_id=cluster_id)

    def _declarations(self) -> Declarations:
        return Declarations([self._cluster], self._session, self._ledger)

    async def _look(self, declarations: Declarations) -> Declared:
        declared = await declarations.look()
        if (problem := declared.away.get(self._cluster.alias)) is not None:
            raise cluster_error(problem, problem.message, cluster=self._cluster.alias)
        return declared

    def _find_report(self, reports: Iterable[NamespaceReport], namespace: Namespace) -> NamespaceReport:
        names: list[str] = []
        for each in reports:
            if each.namespace == namespace:
                return each
            names.append(f"{each.namespace.kind} {each.namespace}")
        raise ConfigError(
            f"no {namespace.kind} namespace {namespace} is declared on {self._cluster.alias}",
            hint=which_are("declared", names),
        )

    async def _reports(
        self, declarations: Declarations, declared: Declared, documents: Iterable[NamespaceDocument] | None = None
    ) -> tuple[NamespaceReport, ...]:
        there = declared.namespaces[self._cluster.alias].values()
        chosen = tuple(there if documents is None else documents)
        members = await members_of(declarations.client(self._cluster.alias), {one.kind for one in chosen})
        cluster_id = declared.ids[self._cluster.alias]
        is_behind = has_gateway(await read_ledger(declarations.client(self._cluster.alias)), cluster_id)
        return tuple(
            NamespaceReport(
                cluster=self._cluster.alias,
                has_gateway=is_behind,
                namespace=one.namespace,
                registers=one.registers,
                attached=tuple(attachments(declared.links.living, cluster_id, one.namespace)),
                members=(one.namespace.members(members.names[one.kind]) if one.kind in members.names else None),
                overlapping=tuple(
                    other.namespace
                    for other in there
                    if other.namespace != one.namespace and other.namespace.overlaps(one.namespace)
                ),
                problem=members.problems.get(one.kind),
            )
            for one in chosen
        )
