"""The desk that routes ask: the present fabric, with the links that are declared on its clusters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar
from weakref import WeakValueDictionary

from fastapi import Response

from isthmus.config.taking import take
from isthmus.errors import ConfigError, RequestRefused
from isthmus.fabric.answers import (
    AsyncAdministration,
    AsyncReassigning,
    Authorship,
    ClientSession,
    DeclaredLink,
    DeclaredTree,
    authorship,
)
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.fabric.opening import open_configuration
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.link import DataGapPolicy, DeletionPolicy, DivergencePolicy, Link
from isthmus.model.links.transform import Transform
from isthmus.model.namespace import NamespaceKind
from isthmus.model.registers import Registers
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import Flat, texts
from isthmus.model.trees.tree import Tree, TreeSettings
from isthmus.web.conditions import IfMatch, check_match, etag_of
from isthmus.web.lending import Lending

FoundT = TypeVar("FoundT")
DeclaredT = TypeVar("DeclaredT", DeclaredLink, DeclaredTree)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedNames:
    """The names of a kind at the target."""

    kind: NamespaceKind
    map: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """How much a link may take; null for the default."""

    SCHEMA: ClassVar = "Limits"

    bytes_per_s: int | None
    bytes_in_flight: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSummary:
    """A link as the configuration has it."""

    link: str
    source: str
    target: str
    declared: bool
    topics_include: Annotated[tuple[TopicPattern, ...], texts]
    topics_exclude: Annotated[tuple[TopicPattern, ...], texts]
    transforms: tuple[Transform, ...]
    namespaces: tuple[MappedNames, ...]
    limits: LinkLimits
    on_data_gap: DataGapPolicy
    on_divergence: DivergencePolicy
    on_source_deleted: DeletionPolicy
    aborted: AbortedPolicy
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLink:
    """A link as the configuration has it, with its declarations."""

    summary: Flat[LinkSummary]
    declaration: DeclaredLink | None


class FabricDesk:
    """Opens the fabric for each request, so that newly declared links are there. Requests that look share connections,
    and what they have read of ledgers; each that `is_change` connects and reads by itself, since what it decides is
    judged by what it finds.
    """

    def __init__(self, configuration: Configuration, file: Path | None = None) -> None:
        self.configuration = configuration
        self.latest = configuration
        """With what was declared when it was looked for last."""
        self.file = file
        """Where it is written, for commands that are called."""
        self._taking_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lending = Lending()

    async def aclose(self) -> None:
        """Leave the clusters after the last request."""
        await self._lending.aclose()

    def take(self, configuration: Configuration) -> None:
        """Use the configuration of a run, whose file was read again or whose clusters have new declarations."""
        self.configuration, self.latest = configuration.written, configuration

    def turn(self, subject: str) -> asyncio.Lock:
        """Return the lock for reading, comparing and writing a subject: of two requests that change the same one, one
        gets 412. A cluster that does not answer blocks no changes of other subjects.
        """
        return self._taking_turns.setdefault(subject, asyncio.Lock())

    async def now(self, link: str | None = None) -> Configuration:
        """Return the configuration with present declarations; clusters are not asked for a mirror
        `link` of the file.
        """
        if link is not None and self._writes_link(link):
            return self.configuration
        async with self._lending.session() as session:
            return await self._read(session)

    @contextlib.asynccontextmanager
    async def _session(self, *, is_change: bool) -> AsyncIterator[ClientSession]:
        async with ClientSession() if is_change else self._lending.session() as session:
            yield session

    async def _read(self, session: ClientSession) -> Configuration:
        self.latest = await open_configuration(self.configuration, session, declared=True)
        return self.latest

    async def tree(self, name: str) -> TreeSettings:
        """Return a tree of the file, or one that is declared now.

        :raises RequestRefused: There is none of that name.
        """
        configuration = self.configuration if self.writes_tree(name) else await self.now()
        for each in configuration.trees:
            if each.tree.name == name:
                return each
        raise _no_tree(name)

    async def tree_now(self, name: str) -> Tree:
        """Return the clusters and distributors of a tree as it runs now, whatever the file has.

        :raises RequestRefused: There is none of that name.
        """
        for each in (await self.now()).trees:
            if each.tree.name == name:
                return each.tree
        raise _no_tree(name)

    def writes_tree(self, name: str) -> bool:
        """Return whether a tree is in the file: clusters are not asked for it then."""
        return any(each.tree.name == name for each in self.configuration.trees)

    def _writes_link(self, name: str) -> bool:
        return any(each.name == name and not each.tree for each in self.configuration.links)

    async def links(self) -> tuple[Link, ...]:
        """Return all present links, over a session of its own: the watch asks for them in a loop of its own."""
        async with ClientSession() as session:
            return (await self._read(session)).links

    async def having(self, link: str) -> Configuration:
        """Return the present configuration, which has this link.

        :raises RequestRefused: There is none of that name.
        """
        async with self._session(is_change=False) as session:
            return await self._having(link, session)

    async def _having(self, link: str, session: ClientSession) -> Configuration:
        configuration = self.configuration if self._writes_link(link) else await self._read(session)
        try:
            configuration.link(link)
        except ConfigError as error:
            raise _missing(error) from None
        return configuration

    @contextlib.asynccontextmanager
    async def fabric(self, link: str | None = None, *, is_change: bool = False) -> AsyncIterator[AsyncFabric]:
        """Open the fabric, with all present links, or with this one at least.

        :raises RequestRefused: There is none of that name.
        """
        async with self._session(is_change=is_change) as session:
            configuration = await (self._read(session) if link is None else self._having(link, session))
            async with AsyncFabric(configuration, session=session) as fabric:
                yield fabric

    @contextlib.asynccontextmanager
    async def open_file_fabric(self, *, is_change: bool = False) -> AsyncIterator[AsyncFabric]:
        """Open the fabric of the file: its clusters are not asked for declared links."""
        async with (
            self._session(is_change=is_change) as session,
            AsyncFabric(self.configuration, session=session) as fabric,
        ):
            yield fabric

    async def authorship(self) -> Authorship:
        """Return the values with a known author, from the ledgers of all clusters: of commands and
        other servers too.
        """
        async with self._lending.session() as session:
            return await authorship(self.configuration.clusters, session)

    @contextlib.asynccontextmanager
    async def link(self, name: str, *, is_change: bool = False) -> AsyncIterator[tuple[AsyncFabric, Link]]:
        """Open a link, and the fabric that has it.

        :raises RequestRefused: There is none of that name.
        """
        async with self.fabric(name, is_change=is_change) as fabric:
            yield fabric, fabric.configuration.link(name)

    async def describe_link(self, name: str) -> tuple[DescribedLink, str]:
        """Return a link with its declaration, and its ETag.

        :raises RequestRefused: There is none of that name.
        """
        async with self.link(name) as (fabric, chosen):
            is_declared = name in (fabric.configuration.declared or ())
            declared = await fabric.declarations.describe(name) if is_declared else None
        summary = link_summary(chosen, is_declared=is_declared)
        description = DescribedLink(summary=summary, declaration=declared)
        return description, etag_of(summary) if declared is None else declared_etag(declared)

    async def as_read(self, link: str, if_match: IfMatch = None) -> None:
        """A dependency of actions on a link: with If-Match it has to be as it was read.

        :raises RequestRefused: There is none of that name, or it was changed since.
        """
        if if_match is not None:
            check_match(if_match, (await self.describe_link(link))[1])

    async def tree_as_read(self, tree: str, if_match: IfMatch = None) -> None:
        """A dependency of actions on a tree: with If-Match its clusters have to be as they were read.

        :raises RequestRefused: There is none of that name, or it was changed since.
        """
        if if_match is not None:
            check_match(if_match, etag_of(await self.tree_now(tree)))

    @contextlib.asynccontextmanager
    async def open_for_change(
        self, link: str, if_match: str | None, *, is_needed: bool = False, half_deleted: bool = False
    ) -> AsyncIterator[tuple[AsyncFabric, Registers]]:
        """Open a declared link for a change, if it is as the caller knows it: one change at a time. Yield its
        statements too. With `half_deleted` it may be one whose deletion has not reached a cluster.

        :raises RequestRefused: None of that name is declared, or it was changed since it was read.
        """
        async with self.turn(f"link {link}"), self.open_file_fabric(is_change=True) as fabric:
            declared = await require_found(fabric.declarations.describe(link, half_deleted=half_deleted))
            check_match(if_match, declared_etag(declared), is_needed=is_needed)
            yield fabric, declared.declaration.registers

    async def check_known(self, link: str, if_match: str | None) -> None:
        """Check that a declared link is as the caller knows it; a deletion that was interrupted may be resumed. Take no
        turn: a deletion that waits for a lost cluster would block a failover.

        :raises RequestRefused: None of that name is declared, or it was changed since it was read.
        """
        async with self.open_file_fabric() as fabric:
            declared = await require_found(fabric.declarations.describe(link, half_deleted=True))
            check_match(if_match, declared_etag(declared), is_needed=False)

    @contextlib.asynccontextmanager
    async def known_tree(
        self, tree: str, if_match: str | None, *, half_deleted: bool = False
    ) -> AsyncIterator[tuple[AsyncFabric, Registers]]:
        """Open a declared tree for a change, if it is as the caller knows it: one change at a time. See
        `open_for_change`.

        :raises RequestRefused: None of that name is declared, or it was changed since it was read.
        """
        async with self.turn(f"tree {tree}"), self.open_file_fabric(is_change=True) as fabric:
            declared = await require_found(fabric.declared_trees.describe(tree, half_deleted=half_deleted))
            check_match(if_match, declared_etag(declared))
            yield fabric, declared.declaration.registers

    def cluster(self, alias: str, *, is_change: bool = False) -> AbstractAsyncContextManager[AsyncAdministration]:
        """Open a cluster of the file.

        :raises RequestRefused: There is none of that alias.
        """
        return self._of_file(lambda fabric: fabric.cluster(alias), is_change=is_change)

    def reassigning(self, alias: str, *, is_change: bool = False) -> AbstractAsyncContextManager[AsyncReassigning]:
        """Open the partitions of a cluster of the file, to move them between its brokers; as `cluster`."""
        return self._of_file(lambda fabric: fabric.reassigning(alias), is_change=is_change)

    @contextlib.asynccontextmanager
    async def _of_file(self, look: Callable[[AsyncFabric], FoundT], *, is_change: bool) -> AsyncIterator[FoundT]:
        async with self.open_file_fabric(is_change=is_change) as fabric:
            try:
                chosen = look(fabric)
            except ConfigError as error:
                raise _missing(error) from None
            yield chosen


async def require_found(look: Awaitable[FoundT]) -> FoundT:
    """Return the resource that a path names.

    :raises RequestRefused: It names nothing, as `look` tells by a ConfigError.
    """
    try:
        return await look
    except ConfigError as error:
        raise _missing(error) from None


def _no_tree(name: str) -> RequestRefused:
    return RequestRefused(f"there is no tree {name}", status=HTTPStatus.NOT_FOUND, hint="GET /v1/trees lists them.")


def _missing(error: ConfigError) -> RequestRefused:
    return RequestRefused(error.message, status=HTTPStatus.NOT_FOUND, hint=error.hint)


def link_summary(link: Link, *, is_declared: bool) -> LinkSummary:
    """Return a link as the configuration has it, in plain values; of its clusters only the aliases."""
    return take(
        LinkSummary,
        link,
        link=link.name,
        source=link.source.alias,
        target=link.target.alias,
        declared=is_declared,
        topics_include=link.topics.include,
        topics_exclude=link.topics.exclude,
        namespaces=tuple(MappedNames(kind=each.kind, map=str(each)) for each in link.namespaces),
        limits=limits_of(link),
        aborted=link.transactions.aborted,
        visibility=link.transactions.visibility,
    )


def limits_of(link: Link) -> LinkLimits:
    """Return the limits of a link."""
    return take(LinkLimits, link.limits)


def add_etag(declared: DeclaredT, response: Response) -> DeclaredT:
    """Return a declared thing, and set its ETag in the response."""
    response.headers["ETag"] = declared_etag(declared)
    return declared


def declared_etag(declared: DeclaredLink | DeclaredTree) -> str:
    """Return the ETag of a declared thing: each new statement about it changes the ETag."""
    return etag_of(declared.declaration.registers)
