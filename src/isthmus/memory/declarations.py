"""The ledgers of a configuration's clusters, as far as they hold declarations of operators: read, followed, written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from isthmus.errors import ClusterError, Fenced, PlanRefused, Unreachable
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import (
    DeclarationDocument,
    Document,
    NamespaceDocument,
    SwitchDocument,
    TreeDeclarationDocument,
    TreeDocument,
)
from isthmus.ledger.fencing import CONTENTION_S, write_by_one
from isthmus.ledger.records import Deletion, Entry, LedgerChange
from isthmus.ledger.view import LedgerView
from isthmus.local.operator import operator
from isthmus.memory.declared import Declared, DeclaredT, Merged
from isthmus.memory.links import now_ms
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.problem import Problem, problem_of
from isthmus.model.registers import (
    RESERVED,
    Author,
    Declarable,
    Registers,
    change_registers,
    find_contested,
    merge_registers,
)
from isthmus.model.trees.reshaping import check_follows, text_of
from isthmus.model.trees.tree import TreeSettings
from isthmus.model.trees.treedeclaration import TreeDeclaration

PATIENCE_S: Final = 10.0
"""How long a cluster may take to answer; a run asks it again later."""
_KINDS: Final = tuple(
    each.KIND
    for each in (DeclarationDocument, NamespaceDocument, SwitchDocument, TreeDocument, TreeDeclarationDocument)
)
_ROLE: Final = "declaration"
_LATER: Final = (ClusterError, Fenced, PlanRefused)
"""Errors that postpone a write to the next look."""
_ChangeT = TypeVar("_ChangeT", bound=LedgerChange)


class Declarations:
    """The declarations of some clusters, followed from look to look, and added to."""

    def __init__(self, clusters: Collection[Cluster], session: ClientSession, ledger: LedgerSettings) -> None:
        self._places = [_Place(session.client(cluster), ledger) for cluster in clusters]

    def client(self, alias: str) -> Client:
        """Return the connection to one of the clusters."""
        return self._place(alias).client

    async def look(self) -> Declared:
        """Read the declarations, as far as clusters answer within ten seconds each.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        await asyncio.gather(*(place.look() for place in self._places))
        return Declared(
            ids={place.alias: place.cluster_id for place in self._places if place.cluster_id},
            away={place.alias: place.problem for place in self._places if place.problem is not None},
            unread=frozenset(place.alias for place in self._places if not place.is_read),
            links=self._merge(
                lambda all_: [(each.declared, each.cluster) for each in DeclarationDocument.find_all(all_)]
            ),
            trees=self._merge(
                lambda all_: [(each.declared, each.cluster) for each in TreeDeclarationDocument.find_all(all_)]
            ),
            namespaces={place.alias: place.namespaces for place in self._places},
            choices={
                (place.alias, each.link): each.choice
                for place in self._places
                for each in SwitchDocument.find_all(place.documents.values())
            },
            shapes={name: each.shape for name, each in self._tree_documents().items()},
        )

    def _merge(self, find: Callable[[Iterable[Document]], Iterable[tuple[DeclaredT, str]]]) -> Merged[DeclaredT]:
        """Merge over all clusters what `find` finds in the documents of each: what is stated, and who knows it so."""
        merged: dict[str, DeclaredT] = {}
        versions: dict[tuple[str, str], Registers] = {}
        for place in self._places:
            for stated, cluster in find(place.documents.values()):
                known = merged.get(stated.name, stated)
                merged[stated.name] = known.join(stated.registers)
                if cluster == place.cluster_id:
                    versions[place.alias, stated.name] = stated.registers
        return Merged({name: each for name, each in merged.items() if each.is_whole}, versions)

    def _tree_documents(self) -> dict[str, TreeDocument]:
        """Return the documents of changed trees, by name: the newest that any cluster knows."""
        found = [one for place in self._places for one in TreeDocument.find_all(place.documents.values())]
        return {each.tree: each for each in sorted(found, key=lambda one: (one.shape.serial, one.shape.clusters))}

    async def write_tree(self, alias: str, document: TreeDocument, *, contention_s: float = CONTENTION_S) -> None:
        """Write a changed tree to a cluster's ledger.

        :raises PlanRefused: It holds another shape that was made since, or at the same time.
        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)

        def newest() -> TreeDocument:
            held = TreeDocument.find(place.documents, document.tree)
            is_news = check_follows(document.tree, None if held is None else held.shape, document.shape)
            return held if held is not None and not is_news else document

        await place.write(f"tree.{document.tree}", newest, contention_s=contention_s)

    async def heal(self, declared: Declared, trees: Collection[TreeSettings]) -> None:
        """Write to the clusters that answer what they miss of their links and trees, and of the changed `trees` that
        are run. Nothing new is decided: namespaces that follow are reserved even if their cluster was away when they
        were attached. Warn of statements that do not hold. A concurrent statement has precedence: what is left is
        written at the next look.
        """
        declared.tell_overruled()
        declared.tell_returned()
        known: list[Declaration | TreeDeclaration] = [*declared.links.values(), *declared.trees.values()]
        for declaration in known:
            for alias in declared.behind(declaration):
                with contextlib.suppress(*_LATER):
                    await self.write(alias, declaration, declaration.registers, contention_s=0.0)
        for link in declared.links.living:
            with contextlib.suppress(*_LATER):
                await self.declare(declared, link, link.maps, contention_s=0.0)
        shapes = {settings.tree.name: text_of(settings.tree.root) for settings in trees}
        for document in self._tree_documents().values():
            if shapes.get(document.tree) != document.shape.clusters:
                # The file says something else, which wins.
                continue
            for place in self._places:
                held = TreeDocument.find(place.documents, document.tree)
                if declared.is_there(place.alias) and is_behind(document, held, place.alias):
                    with contextlib.suppress(*_LATER):
                        await self.write_tree(place.alias, document, contention_s=0.0)

    async def declare(
        self,
        declared: Declared,
        link: Declaration,
        maps: Iterable[NamespaceMap],
        *,
        contention_s: float = CONTENTION_S,
    ) -> None:
        """Write to the clusters that answer which of their own namespaces are attached, and reserve those that follow.

        :raises ClusterError: A ledger cannot be read or written.
        """
        ends = declared.alias_of(link.source), declared.alias_of(link.target)
        for each in maps:
            for alias, namespace, follows in zip(ends, (each.source, each.target), (False, True), strict=True):
                if alias is None or not declared.is_there(alias):
                    continue
                if _due_values(declared.namespaces[alias].get(namespace), is_reserved=follows):
                    due_values = partial(_due_values, is_reserved=follows)
                    await self.write_namespace(alias, namespace, due_values, contention_s=contention_s)

    async def write(
        self,
        alias: str,
        declaration: Declaration | TreeDeclaration,
        new: Registers,
        *,
        contention_s: float = CONTENTION_S,
    ) -> None:
        """Write to a cluster a link or a tree as it was when it was read (`declaration`), and the `new` statements.

        :raises PlanRefused: Another operator gave one of the `new` statements another value meanwhile.
        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)

        name, is_tree = declaration.name, isinstance(declaration, TreeDeclaration)

        def document() -> DeclarationDocument | TreeDeclarationDocument:
            if is_tree:
                trees = TreeDeclarationDocument.find_all(place.documents.values())
                held = [each.registers for each in trees if each.tree == name]
                registers = _merge_registers(declaration, held, new)
                return TreeDeclarationDocument(tree=name, cluster=place.cluster_id, registers=registers)
            held = [each.registers for each in DeclarationDocument.find_all(place.documents.values(), name)]
            registers = _merge_registers(declaration, held, new)
            return DeclarationDocument(link=name, cluster=place.cluster_id, registers=registers)

        await place.write(f"tree.{name}" if is_tree else name, document, contention_s=contention_s)

    async def write_namespace(
        self,
        alias: str,
        namespace: Namespace,
        values_for: Callable[[NamespaceDocument | None], Mapping[str, Any]],
        *,
        contention_s: float = CONTENTION_S,
    ) -> NamespaceDocument:
        """Write to a cluster the values that `values_for` returns for the namespace document its ledger then holds.

        :raises PlanRefused: `values_for` raised it: the namespace was changed meanwhile.
        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)

        def document() -> NamespaceDocument:
            held = place.namespace(namespace)
            values = values_for(held)
            before: Registers = () if held is None else held.registers
            return namespace_document(namespace, place.cluster_id, before, values)

        what = f"namespace.{namespace.kind}.{namespace}"
        return await place.write(what, document, contention_s=contention_s)

    async def delete_namespace(
        self, alias: str, namespace: Namespace, check: Callable[[NamespaceDocument], None]
    ) -> None:
        """Delete a namespace from a cluster's ledger, if the document it then holds passes this `check`.

        :raises PlanRefused: The check failed: the namespace was changed meanwhile.
        :raises ClusterError: Its ledger cannot be read or written.
        """
        place = self._place(alias)

        def deletion() -> Deletion:
            held = place.namespace(namespace)
            if held is not None:
                check(held)
            return Deletion(namespace_document(namespace, place.cluster_id, (), {}).key)

        await place.write(f"namespace.{namespace.kind}.{namespace}", deletion)

    def _place(self, alias: str) -> _Place:
        return next(place for place in self._places if place.alias == alias)


class _DeclarationMemory:
    """The declarations in the ledger of a client's cluster, followed from look to look by all who use the client."""

    def __init__(self, client: Client) -> None:
        self.documents: dict[str, Document] = {}
        self._view = LedgerView(client)
        self._looking = asyncio.Lock()
        self._untaken: dict[str, Entry] = {}

    async def refresh(self) -> None:
        """Read what was written since the last look.

        :raises PlanRefused: A newer Isthmus wrote some of it.
        :raises ClusterError: The ledger cannot be read.
        """
        async with self._looking:
            news = await self._view.look()
            if news.is_other_log:
                self.documents.clear()
                self._untaken.clear()
            self._untaken.update((entry.key, entry) for entry in news.entries if entry.kind in _KINDS)
            for key, entry in list(self._untaken.items()):
                # A document of a newer Isthmus is refused at every look, until it is replaced.
                document = entry.decode()
                if document is not None:
                    self.documents[key] = document
                elif entry.value is None:
                    self.documents.pop(key, None)
                del self._untaken[key]

    def close(self) -> None:
        self._view.close()


class _Place:
    """The declarations in one cluster's ledger; `problem` is why the last look at it failed, if it did."""

    def __init__(self, client: Client, ledger: LedgerSettings) -> None:
        self.alias = client.cluster.alias
        self.client = client
        self.cluster_id = ""
        self.problem: Problem | None = None
        self.is_read = False
        self._ledger = ledger
        self._memory = client.companion(_DeclarationMemory)

    @property
    def documents(self) -> Mapping[str, Document]:
        """The documents by key; none before the first look that succeeded, whatever others have read before."""
        return self._memory.documents if self.is_read else {}

    @property
    def namespaces(self) -> dict[Namespace, NamespaceDocument]:
        """The namespaces that are declared of this cluster, in the order of their kinds and names."""
        found = sorted(NamespaceDocument.find_all(self.documents.values()), key=lambda one: one.key)
        return {one.namespace: one for one in found if one.cluster == self.cluster_id}

    async def look(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._look()
            self.problem = None
        except ClusterError as error:
            self.problem = problem_of(error)
        except TimeoutError:
            hint = "Check that its brokers run, can be reached from here and are not held back by a client quota."
            self.problem = problem_of(
                Unreachable(f"{self.alias} did not answer within {PATIENCE_S:g} s", cluster=self.alias, hint=hint)
            )

    async def _look(self) -> None:
        if not self.cluster_id:
            self.cluster_id = (await describe_cluster(self.client)).cluster_id
        await self._memory.refresh()
        self.is_read = True

    def namespace(self, namespace: Namespace) -> NamespaceDocument | None:
        """Return the document of a namespace of this cluster, or `None`."""
        return self.namespaces.get(namespace)

    async def write(self, what: str, made: Callable[[], _ChangeT], *, contention_s: float = CONTENTION_S) -> _ChangeT:
        """Append what `made` returns for the newest state of the ledger: see `write_by_one`."""

        async def change() -> _ChangeT:
            await self._look()
            return made()

        return await write_by_one(
            self.client,
            what,
            change,
            role=_ROLE,
            replication_factor=self._ledger.replication_factor,
            contention_s=contention_s,
        )


def _due_values(held: NamespaceDocument | None, *, is_reserved: bool) -> dict[str, Any]:
    """Return the values to write for an attached namespace, in addition to its document."""
    if held is None:
        return {RESERVED: is_reserved}
    is_held = any(register.name == RESERVED and register.decoded for register in held.registers)
    return {RESERVED: True} if is_reserved and not is_held else {}


def is_behind(newest: TreeDocument, held: TreeDocument | None, alias: str) -> bool:
    """Whether a cluster misses the newest shape of a tree; a cluster that was removed from it needs it too."""
    return alias in newest.shape.members and (held is None or held.shape.serial < newest.shape.serial)


def namespace_document(
    namespace: Namespace, cluster_id: str, held: Registers, values: Mapping[str, Any]
) -> NamespaceDocument:
    """Return the document of a namespace with these values added to the statements held."""
    return NamespaceDocument(
        kind=namespace.kind,
        prefix=namespace.prefix,
        is_exact=namespace.is_exact,
        cluster=cluster_id,
        registers=merge_registers(held, change_registers(held, values, author(cluster_id))),
    )


def author(cluster_id: str) -> Author:
    """Return the author of commands given here, now, to this cluster first."""
    return Author(by=operator(), at_ms=now_ms(), where=cluster_id)


def _merge_registers(seen: Declarable, held: Iterable[Registers], new: Registers) -> Registers:
    """Return the registers of a ledger that `held` these, once an operator who had `seen` those adds `new` ones.

    :raises PlanRefused: Another operator has since given one of the `new` registers another value.
    """
    known = merge_registers(*held)
    other = find_contested(seen.registers, known, {register.name: register.value for register in new})
    if other is not None:
        raise PlanRefused(
            f"{seen.KIND} {seen.name} was changed meanwhile: {other.as_news}",
            hint=f"Look at it (isthmus {seen.KIND} describe {seen.name}) and ask again.",
        )
    return merge_registers(known, seen.registers, new)


async def read_declarations(configuration: Configuration, session: ClientSession) -> tuple[Declarations, Declared]:
    """Return the declarations of a configuration's clusters, to be added to, and what they are now.

    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    declarations = Declarations(configuration.clusters, session, configuration.ledger)
    return declarations, await declarations.look()


async def with_declared(configuration: Configuration, session: ClientSession) -> Configuration:
    """Return the configuration with the declarations on its clusters. Those that are away declare nothing.

    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    _, declared = await read_declarations(configuration, session)
    return declared.over(configuration)
