"""The namespaces of one cluster (KIP-986): declared, looked into, and taken back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus.cluster.access import describe_rules
from isthmus.cluster.groups import list_groups, listed
from isthmus.control.blocking import in_loop
from isthmus.control.links.attaching import author
from isthmus.control.links.declared import Declarations, Declared
from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.ledger.documents import NamespaceDocument
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.declaration import Declaration
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.problem import Problem, problem_dict, problem_of
from isthmus.model.registers import RESERVED, Registers, changed, merged
from isthmus.model.rights import Resource
from isthmus.wire.client import Client

_OF_PRINCIPALS: Final = (Resource.TOPIC, Resource.GROUP)
ASYNC_ONLY: Final = "async_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A link that a namespace is attached to: it `leads` where it is that link's source, else it follows."""

    link: str
    leads: bool
    other: Namespace
    other_cluster: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "role": "leader" if self.leads else "follower",
            "namespace": str(self.other),
            "cluster": self.other_cluster,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport:
    """A namespace as it stands now. `members` are the names in it, `None` where they could not be read (`problem`);
    `overlapping` are others of the cluster that share names with it.
    """

    cluster: str
    namespace: Namespace
    registers: Registers
    attached: tuple[Attachment, ...] = ()
    members: tuple[str, ...] | None = None
    overlapping: tuple[Namespace, ...] = ()
    problem: Problem | None = None

    @property
    def is_reserved(self) -> bool:
        """Whether nobody but a link shall write to it."""
        return bool(self._value(RESERVED))

    @property
    def is_async_only(self) -> bool:
        """Whether it may be in no synchronous link."""
        return bool(self._value(ASYNC_ONLY))

    def _value(self, name: str) -> Any:
        return next((register.said for register in self.registers if register.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "cluster": self.cluster,
            "kind": self.namespace.kind,
            "namespace": str(self.namespace),
            "prefix": self.namespace.prefix,
            "exact": self.namespace.is_exact,
            "reserved": self.is_reserved,
            "async_only": self.is_async_only,
            "attached": [each.as_dict() for each in self.attached],
            "members": None if self.members is None else list(self.members),
            "empty": None if self.members is None else not self.members,
            "overlapping": [str(other) for other in self.overlapping],
            "problem": None if self.problem is None else problem_dict(self.problem),
            "said": [register.as_dict() for register in self.registers],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The names a cluster has, by kind of namespace; `problems` where they could not be read."""

    names: Mapping[NamespaceKind, tuple[str, ...]] = field(default_factory=dict)
    problems: Mapping[NamespaceKind, Problem] = field(default_factory=dict)


class Namespaces:
    """The namespaces of one cluster: `fabric.cluster(alias).namespaces`. With `dry_run` nothing is written."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings) -> None:
        self._cluster = cluster
        self._ledger = ledger

    def all(self) -> tuple[NamespaceReport, ...]:
        """Those that were declared, by kind and name.

        :raises ClusterError: The cluster's ledger cannot be read.
        """
        return in_loop(self._all())

    def describe(self, namespace: Namespace) -> NamespaceReport:
        """One of them.

        :raises ConfigError: It was not declared.
        :raises ClusterError: The cluster's ledger cannot be read.
        """
        return in_loop(self._describe(namespace))

    def create(
        self, namespace: Namespace, *, reserved: bool = False, async_only: bool = False, dry_run: bool = False
    ) -> NamespaceReport:
        """Declare one.

        :raises PlanRefused: It is declared already.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        values = {RESERVED: reserved, ASYNC_ONLY: async_only}
        return in_loop(self._change(namespace, values, is_new=True, dry_run=dry_run))

    def update(
        self,
        namespace: Namespace,
        *,
        reserved: bool | None = None,
        async_only: bool | None = None,
        dry_run: bool = False,
    ) -> NamespaceReport:
        """Change what of it can change: its kind and its prefix cannot.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It follows another one and so stays reserved.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        values = {RESERVED: reserved, ASYNC_ONLY: async_only}
        given = {name: value for name, value in values.items() if value is not None}
        return in_loop(self._change(namespace, given, is_new=False, dry_run=dry_run))

    def delete(self, namespace: Namespace, *, dry_run: bool = False) -> NamespaceReport:
        """Have the ledger forget one; what is in it stays.

        :raises ConfigError: It was not declared.
        :raises PlanRefused: It is attached to a link.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        return in_loop(self._delete(namespace, dry_run=dry_run))

    async def release(self, namespace: Namespace) -> None:
        """Have one be reserved no more, if it was declared.

        :raises PlanRefused: It follows another one.
        :raises ClusterError: The cluster's ledger cannot be read or written.
        """
        with contextlib.suppress(ConfigError):
            await self._change(namespace, {RESERVED: False}, is_new=False, dry_run=False)

    async def _all(self) -> tuple[NamespaceReport, ...]:
        async with self._declarations() as declarations:
            return await self._reports(declarations, await self._look(declarations))

    async def _describe(self, namespace: Namespace) -> NamespaceReport:
        return self._found(await self._all(), namespace)

    async def _change(
        self, namespace: Namespace, values: Mapping[str, bool], *, is_new: bool, dry_run: bool
    ) -> NamespaceReport:
        async with self._declarations() as declarations:
            declared = await self._look(declarations)
            reports = await self._reports(declarations, declared)
            known = next((each for each in reports if each.namespace == namespace), None)
            if is_new and known is not None:
                raise PlanRefused(
                    f"namespace {namespace} of {self._cluster.alias} is declared already",
                    hint="isthmus namespace update changes it.",
                )
            if not is_new:
                known = self._found(reports, namespace)
                self._check_following(known, values)
            before: Registers = () if known is None else known.registers
            cluster_id = declared.ids[self._cluster.alias]
            new = changed(before, values, author(cluster_id))
            document = NamespaceDocument(
                kind=namespace.kind,
                prefix=namespace.prefix,
                is_exact=namespace.is_exact,
                cluster=cluster_id,
                registers=merged(before, new),
            )
            if new and not dry_run:
                await declarations.write_namespace(self._cluster.alias, document)
            (report,) = await self._reports(declarations, declared, [document])
            return report

    def _check_following(self, known: NamespaceReport, values: Mapping[str, bool]) -> None:
        following = [each for each in known.attached if not each.leads]
        if following and values.get(RESERVED) is False:
            link = following[0].link
            raise PlanRefused(
                f"namespace {known.namespace} of {self._cluster.alias} follows {following[0].other} of "
                f"{following[0].other_cluster} by link {link}",
                hint=f"What follows has one writer: isthmus link detach {link} first.",
            )

    async def _delete(self, namespace: Namespace, *, dry_run: bool) -> NamespaceReport:
        async with self._declarations() as declarations:
            declared = await self._look(declarations)
            found = self._found(await self._reports(declarations, declared), namespace)
            if found.attached:
                link = found.attached[0].link
                raise PlanRefused(
                    f"namespace {namespace} of {self._cluster.alias} is attached to link {link}",
                    hint=f"isthmus link detach {link} first.",
                )
            document = next(each for each in declared.namespaces[self._cluster.alias] if each.namespace == namespace)
            if not dry_run:
                await declarations.write_namespace(self._cluster.alias, document, delete=True)
            return found

    def _declarations(self) -> Declarations:
        return Declarations([self._cluster], self._ledger)

    async def _look(self, declarations: Declarations) -> Declared:
        declared = await declarations.look()
        if (problem := declared.away.get(self._cluster.alias)) is not None:
            raise ClusterError(problem.message, cluster=self._cluster.alias, hint=problem.hint)
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
        there = declared.namespaces[self._cluster.alias]
        chosen = tuple(there if documents is None else documents)
        members = await _members(declarations.client(self._cluster.alias), {one.kind for one in chosen})
        cluster_id = declared.ids[self._cluster.alias]
        return tuple(
            NamespaceReport(
                cluster=self._cluster.alias,
                namespace=one.namespace,
                registers=one.registers,
                attached=tuple(_attachments(declared.living, cluster_id, one.namespace)),
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


def _attachments(links: Iterable[Declaration], cluster_id: str, namespace: Namespace) -> Iterable[Attachment]:
    for link in links:
        for each in link.maps:
            if link.source.cluster_id == cluster_id and each.source == namespace:
                yield Attachment(link=link.name, leads=True, other=each.target, other_cluster=link.target.alias)
            if link.target.cluster_id == cluster_id and each.target == namespace:
                yield Attachment(link=link.name, leads=False, other=each.source, other_cluster=link.source.alias)


async def _members(client: Client, kinds: Iterable[NamespaceKind]) -> Members:
    names: dict[NamespaceKind, tuple[str, ...]] = {}
    problems: dict[NamespaceKind, Problem] = {}
    for kind in sorted(kinds):
        try:
            names[kind] = await _names(client, kind)
        except ClusterError as error:
            problems[kind] = problem_of(error)
    return Members(names=names, problems=problems)


async def _names(client: Client, kind: NamespaceKind) -> tuple[str, ...]:
    """The topics or groups a cluster has, or the principals that it has access rules for.

    :raises ClusterError: They cannot be read.
    """
    match kind:
        case "topic":
            return tuple((await client.metadata(None)).topics)
        case "group":
            outcomes = await list_groups(client)
            for error in outcomes.errors.values():
                raise error
            return tuple(listed(outcomes))
        case "principal":
            found = await asyncio.gather(
                *(describe_rules(client, resource) for resource in (Resource.TOPIC, Resource.GROUP))
            )
            return tuple({rule.principal for rules in found for rule in rules})
