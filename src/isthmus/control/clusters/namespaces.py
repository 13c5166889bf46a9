"""The namespaces of one cluster (KIP-986): declared, looked into, and taken back."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from isthmus.control.clusters.closed import has_gateway
from isthmus.control.clusters.contest import check_deletable, named, unchanged
from isthmus.control.clusters.enforcement import (
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
from isthmus.control.clusters.members import EndedTransactions, attachments, check_let_go, ended_in, members_of
from isthmus.control.clusters.namespace import ASYNC_ONLY, NamespaceReport
from isthmus.control.clusters.probing import probed
from isthmus.control.clusters.reading import settle_reading
from isthmus.control.links.attaching import check_prefix
from isthmus.control.links.declarations import Declarations, namespace_document
from isthmus.control.links.declared import Declared
from isthmus.control.links.memory import remembered
from isthmus.errors import ConfigError, PlanRefused
from isthmus.ledger.documents import NamespaceDocument
from isthmus.model.access import Rule
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.namespace import Namespace
from isthmus.model.problem import cluster_error
from isthmus.model.registers import RESERVED, Registers
from isthmus.model.reservation import rule_values
from isthmus.model.synchrony import SYNC
from isthmus.model.transactions import OpenTransaction
from isthmus.model.writability import KEPT, is_enforced


class AsyncNamespaces:
    """The namespaces of one cluster: `fabric.cluster(alias).namespaces`. With `dry_run` nothing is written."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings) -> None:
        self._cluster = cluster
        self._ledger = ledger

    async def all(self) -> tuple[NamespaceReport, ...]:
        """Those that were declared, by kind and name.

        :raises ClusterError: The cluster's ledger cannot be read.
        """
        async with self._declarations() as declarations:
            reports = await self._reports(declarations, await self._look(declarations))
            return await probed(declarations.client(self._cluster.alias), reports)

    async def describe(self, namespace: Namespace) -> NamespaceReport:
        """One of them.

        :raises ConfigError: It was not declared.
        :raises ClusterError: The cluster's ledger cannot be read.
        """
        async with self._declarations() as declarations:
            client = declarations.client(self._cluster.alias)
            (found,) = await probed(client, [await self._known(declarations, namespace)])
            if not found.is_reserved:
                return found
            keep = keeping(self._cluster, found.registers)
            return replace(found, in_force=await examine_reservation(client, namespace, keep))

    async def create(
        self, namespace: Namespace, *, reserved: bool = False, async_only: bool = False, dry_run: bool = False
    ) -> NamespaceReport:
        """Declare one.

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
        """Change what of it can change: its kind and its prefix cannot. Where it is reserved no more, transactions that
        are open in its topics are aborted first: who writes from then on begins with what is decided.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It follows another one and so stays reserved.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        values = {RESERVED: reserved, ASYNC_ONLY: async_only}
        given = {name: value for name, value in values.items() if value is not None}
        return await self._change(namespace, given, is_new=False, dry_run=dry_run)

    async def delete(self, namespace: Namespace, *, dry_run: bool = False) -> NamespaceReport:
        """Have the ledger forget one; what is in it stays. Where it was reserved, transactions that are open in its
        topics are aborted first, as by `update`.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It is attached to a link.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        async with self._declarations() as declarations:
            declared = await self._look(declarations)
            (found,) = await probed(
                declarations.client(self._cluster.alias),
                [self._found(await self._reports(declarations, declared), namespace)],
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
        """Reserve one, and have access rules deny everybody to write there but the principals to `keep`: by default the
        one that the declared link which it follows logs in as, or else the configuration. With `super_user` that one is
        beyond all rules. Rules that were made against somebody who is to be kept now are taken back.

        :raises ConfigError: It was not declared, or nobody is named and the cluster has no such login as the link has.
        :raises PlanRefused: Rules cannot close it, or would close it to the link as well.
        :raises NotAuthorized: No rules may be made; nothing was said then.
        :raises ClusterError: A rule was refused, a broker does not tell that it knows it, or the ledger cannot be read
            or written; it is not said to be closed before, and a repeated call goes on.
        """
        own = Keeping(principals=tuple(keep), has_super_user=super_user)
        async with self._declarations() as declarations:
            declared = await self._look(declarations)
            known = self._found(await self._reports(declarations, declared), namespace)
            client = declarations.client(self._cluster.alias)
            own = own if own.principals else with_own(own, self._as_followed(declared, namespace))
            outdated = outdated_rules(known.registers, own)
            found = require(await examine_reservation(client, namespace, own, without=outdated), own, namespace)
            await check_allowed(client, found)
            if dry_run:
                return replace((await probed(client, [known]))[0], in_force=found)
            await self._close(declarations, known, own, found.missing)
        return await self.describe(namespace)

    async def relax(self, namespace: Namespace, *, dry_run: bool = False) -> NamespaceReport:
        """Take back the access rules that `enforce` made, and no others. It stays reserved.

        :raises ConfigError: It was not declared.
        :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call goes on.
        """
        async with self._declarations() as declarations:
            known = await self._known(declarations, namespace)
            if dry_run:
                return (await probed(declarations.client(self._cluster.alias), [known]))[0]
            await self._open(declarations, known)
        return await self.describe(namespace)

    async def release(self, namespace: Namespace) -> tuple[OpenTransaction, ...]:
        """Have one be reserved no more, if it was declared, and no rules be there that were made for it; the
        transactions that were open, and were aborted.

        :raises PlanRefused: It follows another one.
        :raises GateNotMet: Tasks of a link that has detached it may still write there.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        with contextlib.suppress(ConfigError):
            report = await self._change(namespace, {RESERVED: False}, is_new=False, dry_run=False)
            return report.aborted
        return ()

    async def renew(self, namespace: Namespace) -> tuple[Rule, ...]:
        """Make what is missing of the rules that keep others out of one that is enforced; those that were made.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: Rules cannot close it any more, or would close it to the link as well.
        :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call goes on.
        """
        async with self._declarations() as declarations:
            known = await self._known(declarations, namespace)
            if not is_enforced(known.registers):
                return ()
            client = declarations.client(self._cluster.alias)
            keep = keeping(self._cluster, known.registers)
            found = require(await examine_reservation(client, namespace, keep), keep, namespace)
            try:
                await self._close(declarations, known, keep, found.missing)
            except PlanRefused:
                # What an operator says counts; where it is to be closed still, the next call looks again.
                return ()
            return found.missing

    async def _known(self, declarations: Declarations, namespace: Namespace) -> NamespaceReport:
        return self._found(await self._reports(declarations, await self._look(declarations)), namespace)

    async def _close(
        self, declarations: Declarations, known: NamespaceReport, keep: Keeping, missing: Collection[Rule]
    ) -> None:
        """Remember rules, make them, and say only then that they keep others out: none is left behind that nobody knows
        of, and gateways, which stand aside at that word, refuse others until brokers do.

        :raises PlanRefused: An operator said otherwise meanwhile; the rules are not there.
        :raises ClusterError: A rule was refused, or a broker does not know it.
        """
        alias, namespace = self._cluster.alias, known.namespace
        values = {RESERVED: True, KEPT: keep.said}

        def remembering(held: NamespaceDocument | None) -> dict[str, Any]:
            rules = dict.fromkeys((*made_rules(unchanged(known, held, values)), *missing))
            return {RESERVED: True, ENFORCED: rule_values(rules)}

        document = await declarations.write_namespace(alias, namespace, remembering)
        outdated = outdated_rules(document.registers, keep)
        needed = set(made_rules(document.registers)).difference(outdated)
        await make(declarations.client(alias), missing)
        await await_closed(declarations.client(alias), namespace, keep, without=outdated)

        def saying(held: NamespaceDocument | None) -> dict[str, Any]:
            registers = unchanged(known, held, values)
            if not needed.issubset(made_rules(registers)):
                # Whoever opens what is not closed yet says nothing new of it, and takes back the rules.
                by = next((f" by {register.by}" for register in registers if register.name == ENFORCED), "")
                raise PlanRefused(
                    f"{named(known)} was opened meanwhile{by}", hint="Ask again to close it all the same."
                )
            return {KEPT: keep.said}

        try:
            document = await declarations.write_namespace(alias, namespace, saying)
        except PlanRefused:
            await self._give_up(declarations, namespace, missing)
            raise
        if outdated := outdated_rules(document.registers, keep):
            await self._taken_back(declarations, namespace, outdated)

    async def _give_up(self, declarations: Declarations, namespace: Namespace, made: Collection[Rule]) -> None:
        """Take back what was made to close a namespace of which somebody said otherwise meanwhile. Whoever opened it
        took back what was there by then; whoever closed it in another way goes by the rules that leave his own in.
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
            await self._taken_back(declarations, namespace, gone)

    async def _open(self, declarations: Declarations, known: NamespaceReport) -> NamespaceDocument:
        """Have no rules be there any more that were made for a namespace; what is held of it then."""
        values: dict[str, Any] = {KEPT: []}

        def said(held: NamespaceDocument | None) -> dict[str, Any]:
            unchanged(known, held, values)
            return values

        # Said first: whoever renews the rules makes no more of them.
        document = await declarations.write_namespace(self._cluster.alias, known.namespace, said)
        return await self._taken_back(declarations, known.namespace, made_rules(document.registers))

    async def _delete(self, declarations: Declarations, known: NamespaceReport) -> None:
        if is_enforced(known.registers) or made_rules(known.registers):
            known = replace(known, registers=(await self._open(declarations, known)).registers)
        known = await self._read_again(declarations, known)
        namespace = known.namespace
        await declarations.delete_namespace(self._cluster.alias, namespace, lambda held: check_deletable(known, held))

    async def _read_again(self, declarations: Declarations, known: NamespaceReport) -> NamespaceReport:
        """Have no rules be there that kept readers out of a namespace while its link was SYNCING."""
        if not made_against_readers(known.registers):
            return known
        await settle_reading(declarations, self._cluster, makes=False)
        return await self._known(declarations, known.namespace)

    async def _taken_back(
        self, declarations: Declarations, namespace: Namespace, rules: Collection[Rule]
    ) -> NamespaceDocument:
        """Take rules back that a namespace remembers; what is held of it then. Who has closed it again meanwhile may
        have found them there or made them anew: those are there in the end.
        """
        client = declarations.client(self._cluster.alias)
        await take_back(client, rules)

        def said(held: NamespaceDocument | None) -> dict[str, Any]:
            registers = () if held is None else held.registers
            gone = rules
            if is_enforced(registers):
                gone = [rule for rule in outdated_rules(registers, keeping(self._cluster, registers)) if rule in rules]
            return {ENFORCED: rule_values([rule for rule in made_rules(registers) if rule not in gone])}

        document = await declarations.write_namespace(self._cluster.alias, namespace, said)
        if again := [rule for rule in made_rules(document.registers) if rule in rules]:
            await make(client, again)
        return document

    def _as_followed(self, declared: Declared, namespace: Namespace) -> Cluster:
        """The cluster as the declared link reaches it by which a namespace follows, or as the configuration does."""
        cluster_id = declared.ids[self._cluster.alias]
        for link in declared.living:
            if link.target.cluster_id == cluster_id and any(each.target == namespace for each in link.maps):
                return self._cluster.logged_in(link.target_login)
        return self._cluster

    def _check_asynchronous(self, declared: Declared, namespace: Namespace, values: Mapping[str, Any]) -> None:
        """See that no synchronous link has anything of a namespace that is to be in none.

        :raises PlanRefused: One has.
        """
        for link in declared.living if values.get(ASYNC_ONLY) else ():
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
        async with self._declarations() as declarations:
            declared = await self._look(declarations)
            reports = await self._reports(declarations, declared)
            known = next((each for each in reports if each.namespace == namespace), None)
            if is_new and known is not None:
                raise self._declared_already(namespace)
            self._check_asynchronous(declared, namespace, values)
            if is_new:
                await check_prefix(declarations.client(self._cluster.alias), namespace)
            if not is_new:
                known = self._found(reports, namespace)
                self._check_following(known, values)
                if known.is_reserved and values.get(RESERVED) is False:
                    await self._check_let_go(declarations, declared, namespace)
            ended = EndedTransactions()
            client = declarations.client(self._cluster.alias)
            is_released = known is not None and values.get(RESERVED) is False and not dry_run
            if known is not None and known.is_reserved and is_released and namespace.kind == "topic":
                # Before anybody is let in: what was begun by then has no place in what follows.
                ended = await ended_in(client, namespace)
            wanted = {**values, KEPT: []} if is_released else values

            def said(held: NamespaceDocument | None) -> Mapping[str, Any]:
                if known is None and held is not None:
                    raise self._declared_already(namespace)
                registers = () if known is None else unchanged(known, held, wanted)
                # Where it is released whoever renews the rules makes no more of them.
                return wanted if is_enforced(registers) else values

            before: Registers = () if known is None else known.registers
            cluster_id = declared.ids[self._cluster.alias]
            document = namespace_document(namespace, cluster_id, before, values)
            if document.registers != before and not dry_run:
                document = await declarations.write_namespace(self._cluster.alias, namespace, said)
            (report,) = await self._reports(declarations, declared, [document])
            if is_released and made_rules(report.registers):
                # It is RELEASING until then; whoever repeats an interrupted release goes on here.
                await self._taken_back(declarations, namespace, made_rules(document.registers))
                report = await self._known(declarations, namespace)
            report = await self._read_again(declarations, report)
            return replace((await probed(client, [report]))[0], aborted=ended.aborted, in_doubt=ended.in_doubt)

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
                hint=f"What follows has one writer: isthmus link detach {link} first.",
            )

    async def _check_let_go(self, declarations: Declarations, declared: Declared, namespace: Namespace) -> None:
        alias = self._cluster.alias
        cluster_id = declared.ids[alias]
        await check_let_go(declarations.client(alias), namespace, declared.links.values(), cluster_id=cluster_id)

    def _declarations(self) -> Declarations:
        return Declarations([self._cluster], self._ledger)

    async def _look(self, declarations: Declarations) -> Declared:
        declared = await declarations.look()
        if (problem := declared.away.get(self._cluster.alias)) is not None:
            raise cluster_error(problem, problem.message, cluster=self._cluster.alias)
        return declared

    def _found(self, reports: Iterable[NamespaceReport], namespace: Namespace) -> NamespaceReport:
        names: list[str] = []
        for each in reports:
            if each.namespace == namespace:
                return each
            names.append(f"{each.namespace.kind} {each.namespace}")
        raise ConfigError(
            f"no {namespace.kind} namespace {namespace} is declared on {self._cluster.alias}",
            hint=f"Declared are: {', '.join(names) or 'none'}.",
        )

    async def _reports(
        self, declarations: Declarations, declared: Declared, documents: Iterable[NamespaceDocument] | None = None
    ) -> tuple[NamespaceReport, ...]:
        there = declared.namespaces[self._cluster.alias].values()
        chosen = tuple(there if documents is None else documents)
        members = await members_of(declarations.client(self._cluster.alias), {one.kind for one in chosen})
        cluster_id = declared.ids[self._cluster.alias]
        is_behind = has_gateway(await remembered(declarations.client(self._cluster.alias)), cluster_id)
        return tuple(
            NamespaceReport(
                cluster=self._cluster.alias,
                has_gateway=is_behind,
                namespace=one.namespace,
                registers=one.registers,
                attached=tuple(attachments(declared.living, cluster_id, one.namespace)),
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
