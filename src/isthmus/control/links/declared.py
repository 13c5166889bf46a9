"""What operators declared on the clusters of a configuration, read from their ledgers and merged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from isthmus.cluster.brokers import describe_cluster
from isthmus.config.declared import declared_link
from isthmus.config.treerules import switched, tree_links
from isthmus.errors import ClusterError, ConfigError, Fenced, PlanRefused, Unreachable
from isthmus.ledger.declared import declaration_of
from isthmus.ledger.documents import (
    DeclarationDocument,
    Document,
    NamespaceDocument,
    SwitchDocument,
    TreeDocument,
    decoded,
    kind_of,
)
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.ledger.topic import on_topic
from isthmus.ledger.view import LedgerView
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.declaration import Declaration, End
from isthmus.model.link import Link
from isthmus.model.plain import plain
from isthmus.model.problem import Problem, problem_of
from isthmus.model.registers import Register, Registers
from isthmus.model.reshaping import TreeShape, reshaped
from isthmus.model.switching import TargetChoice
from isthmus.model.tree import TreeSettings
from isthmus.wire.client import Client

PATIENCE_S: Final = 5.0
"""How long a cluster may take to tell what it knows; a run asks it again later."""
_KINDS: Final = tuple(each.KIND for each in (DeclarationDocument, NamespaceDocument, SwitchDocument, TreeDocument))
_Made = Callable[[], LedgerChange]
_ROLE: Final = "declaration"
_TRIES: Final = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What was declared, as the clusters that answered know it.

    `ids` are those of the clusters that ever answered, by alias; `away` are those that do not now, with the reasons.
    `links` are merged over all clusters,
    with those that were deleted; `versions` is what each cluster knows of them, by alias and link. `namespaces` are
    those of each cluster, by alias. `choices` are the leaves chosen for distributors, by the source's alias and link,
    and `shapes` what became of trees of the file, by name.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    away: Mapping[str, Problem] = field(default_factory=dict)
    links: Mapping[str, Declaration] = field(default_factory=dict)
    versions: Mapping[tuple[str, str], Registers] = field(default_factory=dict)
    namespaces: Mapping[str, tuple[NamespaceDocument, ...]] = field(default_factory=dict)
    choices: Mapping[tuple[str, str], TargetChoice] = field(default_factory=dict)
    shapes: Mapping[str, TreeShape] = field(default_factory=dict)

    def alias_of(self, end: End) -> str | None:
        """What the configuration calls a cluster; `None` where it has no such cluster, as far as can be told."""
        if (alias := next((alias for alias, found in self.ids.items() if found == end.cluster_id), None)) is not None:
            return alias
        return end.alias if end.alias in self.away else None

    def is_there(self, alias: str) -> bool:
        """Whether a cluster answers."""
        return alias in self.ids and alias not in self.away

    @property
    def living(self) -> tuple[Declaration, ...]:
        """The links that were not deleted, by name."""
        return tuple(each for _, each in sorted(self.links.items()) if not each.is_deleted)

    def behind(self, declaration: Declaration) -> tuple[str, ...]:
        """The clusters of a link that answered and do not know all that was said of it."""
        aliases = (self.alias_of(declaration.source), self.alias_of(declaration.target))
        return tuple(
            alias
            for alias in aliases
            if alias is not None
            and self.is_there(alias)
            and self.versions.get((alias, declaration.name)) != declaration.registers
        )

    def over(self, configuration: Configuration) -> Configuration:
        """What the file says, with the links that were declared behind its own, and distributors that copy to the
        leaves chosen for them. A link of the file wins over a declared one of its name.
        """
        configuration = self._switched(configuration.written)
        written = {link.name for link in configuration.links}
        for each in self.living:
            if each.name in written:
                _told(f"link {each.name} of the file is run in place of the declared one of that name")
        links = [link for each in self.living if each.name not in written if (link := self.link(each, configuration))]
        return replace(
            configuration,
            links=(*configuration.links, *links),
            declared=frozenset(link.name for link in links),
        )

    def _switched(self, configuration: Configuration) -> Configuration:
        """The configuration with trees as they have become while they ran, and with the leaves that were chosen."""
        if not configuration.trees:
            return configuration
        trees = tuple(self._tree(settings, configuration) for settings in configuration.trees)
        known = self.chosen(trees)
        others = (link for link in configuration.links if not link.tree)
        links = (*others, *tree_links(trees, configuration.clusters, known))
        return replace(configuration, trees=tuple(switched(each, known) for each in trees), links=links)

    def _tree(self, settings: TreeSettings, configuration: Configuration) -> TreeSettings:
        shape = self.shapes.get(settings.tree.name)
        if shape is None:
            return settings
        found, why_not = reshaped(settings, shape, {cluster.alias for cluster in configuration.clusters})
        if why_not:
            _told(why_not)
        return found

    def chosen(self, trees: Iterable[TreeSettings]) -> dict[str, TargetChoice]:
        """The leaves that were chosen for the distributors of trees, by the clusters that they read."""
        each = [one for settings in trees for one in settings.tree.distributors]
        return {
            one.name: self.choices[one.cluster, one.name] for one in each if (one.cluster, one.name) in self.choices
        }

    def link(self, declaration: Declaration, configuration: Configuration) -> Link | None:
        """A declared link between clusters of the configuration; `None` where it has not both, or cannot be used."""
        clusters = {cluster.alias: cluster for cluster in configuration.clusters}
        source = clusters.get(self.alias_of(declaration.source) or "")
        target = clusters.get(self.alias_of(declaration.target) or "")
        if source is None or target is None:
            return None
        try:
            return declared_link(declaration, source, target)
        except ConfigError as error:
            # Another release, or somebody else, wrote it.
            _told(problem_of(error).in_full)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLink:
    """A declared link as it stands now.

    `written_by_file` says that the file has a link of that name, which wins. `behind` are the clusters that do not know
    all of it yet, `away` those that did not answer, and `unusable` is why no process that has this configuration runs
    it. `overruled` has, by cluster, what was said there and does not hold any more.
    """

    declaration: Declaration
    written_by_file: bool = False
    behind: tuple[str, ...] = ()
    away: Mapping[str, Problem] = field(default_factory=dict)
    unusable: Problem | None = None
    overruled: Mapping[str, tuple[tuple[Register, Register], ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            **self.declaration.as_dict(),
            "written_by_file": self.written_by_file,
            "behind": list(self.behind),
            "away": plain(self.away),
            "unusable": plain(self.unusable),
            "said": [register.as_dict() for register in self.declaration.registers],
            "overruled": [
                {"cluster": alias, "said": said.as_dict(), "holds": holds.as_dict()}
                for alias, pairs in self.overruled.items()
                for said, holds in pairs
            ],
        }


class Declarations:
    """The declarations of some clusters, followed from look to look, and added to; use it with `async with`."""

    def __init__(self, clusters: Collection[Cluster], ledger: LedgerSettings) -> None:
        self._places = [_Place(cluster, ledger) for cluster in clusters]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for place in self._places:
            await self._stack.enter_async_context(place.client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._places:
            place.view.close()
        await self._stack.aclose()

    def client(self, alias: str) -> Client:
        """The connection to one of the clusters."""
        return self._place(alias).client

    async def look(self) -> Declared:
        """What was declared, as far as clusters answer within five seconds each.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        await asyncio.gather(*(place.look() for place in self._places))
        links: dict[str, Declaration] = {}
        versions: dict[tuple[str, str], Registers] = {}
        for place in self._places:
            for document in place.documents.values():
                if isinstance(document, DeclarationDocument):
                    known = links.get(document.link, Declaration(name=document.link, registers=()))
                    links[document.link] = known.joined(document.registers)
                    if document.cluster == place.cluster_id:
                        versions[place.alias, document.link] = document.registers
        return Declared(
            ids={place.alias: place.cluster_id for place in self._places if place.cluster_id},
            away={place.alias: place.problem for place in self._places if place.problem is not None},
            links={name: each for name, each in links.items() if each.is_whole},
            versions=versions,
            namespaces={place.alias: place.namespaces for place in self._places},
            choices={
                (place.alias, each.link): each.choice
                for place in self._places
                for each in place.documents.values()
                if isinstance(each, SwitchDocument)
            },
            shapes=self._shapes(),
        )

    def _shapes(self) -> dict[str, TreeShape]:
        found = [one for place in self._places for one in place.documents.values() if isinstance(one, TreeDocument)]
        return {each.tree: each.shape for each in sorted(found, key=lambda one: (one.shape.serial, one.shape.clusters))}

    async def write_tree(self, alias: str, document: TreeDocument) -> None:
        """Have a cluster's ledger hold what became of a tree.

        :raises ClusterError: Its ledger cannot be read or written.
        """
        await self._place(alias).write(f"tree.{document.tree}", lambda: document)

    async def heal(self, declared: Declared) -> None:
        """Have the clusters that answer know all that was said of the links between them. Nothing is decided anew."""
        for declaration in declared.links.values():
            for alias in declared.behind(declaration):
                # It is tried again at the next look.
                with contextlib.suppress(ClusterError, PlanRefused):
                    await self.write(alias, declaration, declaration.registers)

    async def write(self, alias: str, declaration: Declaration, new: Registers) -> None:
        """Have a cluster know a link as it was `declaration` when it was looked at, and what is `new`.

        :raises PlanRefused: Somebody said something else meanwhile.
        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)

        def document() -> DeclarationDocument:
            held = place.declaration(declaration.name)
            _check_unchanged(declaration, held, new)
            registers = held.joined(declaration.registers).joined(new).registers
            return DeclarationDocument(link=declaration.name, cluster=place.cluster_id, registers=registers)

        await place.write(declaration.name, document)

    async def write_namespace(self, alias: str, document: NamespaceDocument, *, delete: bool = False) -> None:
        """Have a cluster's ledger hold a namespace, or no more.

        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)
        change: LedgerChange = Deletion(document.key) if delete else document
        await place.write(f"namespace.{document.kind}.{document.namespace}", lambda: change)

    def _place(self, alias: str) -> _Place:
        return next(place for place in self._places if place.alias == alias)


class _Place:
    """One cluster's ledger, as far as declarations go; `problem` is why the last look at it failed."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings) -> None:
        self.alias = cluster.alias
        self.client = Client(cluster)
        self.view = LedgerView(self.client)
        self.documents: dict[str, Document] = {}
        self.cluster_id = ""
        self.problem: Problem | None = None
        self._ledger = ledger

    @property
    def namespaces(self) -> tuple[NamespaceDocument, ...]:
        """Those that are declared of this cluster, by kind and name."""
        found = (one for _, one in sorted(self.documents.items()) if isinstance(one, NamespaceDocument))
        return tuple(one for one in found if one.cluster == self.cluster_id)

    def declaration(self, link: str) -> Declaration:
        """All that this ledger holds of a link."""
        return declaration_of(link, self.documents.values())

    async def look(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._look()
            self.problem = None
        except ClusterError as error:
            self.problem = problem_of(error)
        except TimeoutError:
            hint = "Check that its brokers run and can be reached from here."
            self.problem = problem_of(
                Unreachable(f"{self.alias} did not answer within {PATIENCE_S:g} s", cluster=self.alias, hint=hint)
            )

    async def _look(self) -> None:
        if not self.cluster_id:
            self.cluster_id = (await describe_cluster(self.client)).cluster_id
        news = await self.view.look()
        if news.is_other_log:
            self.documents.clear()
        for entry in news.entries:
            if kind_of(entry.key) in _KINDS:
                document = None if entry.value is None else decoded(entry.key, entry.value)
                if document is not None:
                    self.documents[entry.key] = document
                elif entry.value is None:
                    self.documents.pop(entry.key, None)

    async def write(self, what: str, made: _Made) -> None:
        """Append what is `made` of the newest state of the ledger. Whoever does so at the same time is fenced, looks
        again and so sees what this one wrote.
        """
        for left in reversed(range(_TRIES)):
            writer = FencedWriter(self.client, what, role=_ROLE)
            try:
                await writer.take_over()
                await on_topic(self.client, self._look, replication_factor=self._ledger.replication_factor)
                change = made()
                append = partial(writer.append, [change])
                await on_topic(self.client, append, replication_factor=self._ledger.replication_factor)
            except Fenced:
                if not left:
                    raise
            else:
                return
            finally:
                writer.close()


def _check_unchanged(seen: Declaration, held: Declaration, new: Registers) -> None:
    """See that nobody said something else of what is `new` since it was `seen`.

    :raises PlanRefused: Somebody did.
    """
    known = {register.name: register for register in seen.registers}
    names = {register.name for register in new}
    for register in held.registers:
        before = known.get(register.name)
        if register.name in names and register not in new and (before is None or register.rank > before.rank):
            raise PlanRefused(
                f"link {seen.name} was changed meanwhile: {register.by} set {register.name} to {register.value}",
                hint=f"Look at it (isthmus link describe {seen.name}) and ask again.",
            )


async def with_declared(configuration: Configuration) -> Configuration:
    """The configuration with the links that were declared on its clusters. Clusters that are away declare nothing.

    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    async with Declarations(configuration.clusters, configuration.ledger) as declarations:
        return (await declarations.look()).over(configuration)


_warned: set[str] = set()


def _told(warning: str) -> None:
    """Warn once: declarations are looked at every few seconds."""
    if warning not in _warned:
        _warned.add(warning)
        _log.warning("%s", warning)
