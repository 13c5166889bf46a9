"""Verbs of links and clusters under their own names, each with a session of its own, as every command has one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from isthmus.clusters.lastknown import lastknown
from isthmus.doctor import examine as doctor
from isthmus.fabric import operations
from isthmus.kafka.session import ClientSession
from isthmus.links import clientmoves, declaring, promotion
from isthmus.links.clientmoves import ClientMove
from isthmus.links.pausing import Resumed
from isthmus.memory import declarations, forgetting, provenance
from isthmus.memory.declared import Declared
from isthmus.memory.forgetting import Forgotten
from isthmus.memory.named import Opened
from isthmus.memory.provenance import Provenance
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.kafka.findings import Finding
from isthmus.model.link import Link
from isthmus.model.links.promotion import Promotion
from isthmus.model.links.recovery import Recovery
from isthmus.model.namespace import NamespaceMap
from isthmus.namespaces import namespaces
from isthmus.recovery import links as recovery
from isthmus.trees import reshaping
from testing.runs.running import configuration_of

CoreT = TypeVar("CoreT")
CoreT_co = TypeVar("CoreT_co", covariant=True)
P = ParamSpec("P")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True)
class Promoter(promotion.Promoter):
    """As the product's; its own session stays unused."""

    session: ClientSession = field(default_factory=ClientSession)

    async def promote(self, *, dry_run: bool = False) -> Promotion:
        """As the product's."""
        async with ClientSession() as session:
            return await promotion.Promoter.promote(replace(self, session=session), dry_run=dry_run)

    async def reverse(self, link: str, *, dry_run: bool = False) -> Promotion:
        """As the product's."""
        async with ClientSession() as session:
            return await promotion.Promoter.reverse(replace(self, session=session), link, dry_run=dry_run)

    async def failover(self, *, dry_run: bool = False) -> Promotion:
        """As the product's."""
        async with ClientSession() as session:
            return await promotion.Promoter.failover(replace(self, session=session), dry_run=dry_run)

    async def detach(self, *, dry_run: bool = False, is_final: bool = False) -> Promotion:
        """As the product's."""
        async with ClientSession() as session:
            leaving = replace(self, session=session)
            return await promotion.Promoter.detach(leaving, dry_run=dry_run, is_final=is_final)


@dataclass(frozen=True, kw_only=True)
class LinkRecoverer(recovery.LinkRecoverer):
    """As the product's; its own session stays unused."""

    session: ClientSession = field(default_factory=ClientSession)

    async def recover(self, *, dry_run: bool = False) -> Recovery:
        """As the product's."""
        async with ClientSession() as session:
            return await recovery.LinkRecoverer.recover(replace(self, session=session), dry_run=dry_run)


class _Verbs(Generic[CoreT_co]):
    def __init__(self, core: Callable[[ClientSession], CoreT_co]) -> None:
        self.core = core


def _with_session(
    method: Callable[Concatenate[CoreT, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[_Verbs[CoreT], P], Coroutine[Any, Any, ResultT]]:
    async def call(own: _Verbs[CoreT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        async with ClientSession() as session:
            return await method(own.core(session), *args, **kwargs)

    update_wrapper(call, method)
    return call


class AsyncDeclaredLinks(_Verbs[declaring.AsyncDeclaredLinks]):
    """As the product's."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(lambda session: declaring.AsyncDeclaredLinks(configuration, session))

    all = _with_session(declaring.AsyncDeclaredLinks.all)
    describe = _with_session(declaring.AsyncDeclaredLinks.describe)
    create = _with_session(declaring.AsyncDeclaredLinks.create)
    update = _with_session(declaring.AsyncDeclaredLinks.update)
    attach = _with_session(declaring.AsyncDeclaredLinks.attach)
    reattach = _with_session(declaring.AsyncDeclaredLinks.reattach)
    delete = _with_session(declaring.AsyncDeclaredLinks.delete)
    change = _with_session(declaring.AsyncDeclaredLinks.change)


class AsyncNamespaces(_Verbs[namespaces.AsyncNamespaces]):
    """As the product's."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings) -> None:
        super().__init__(lambda session: namespaces.AsyncNamespaces(cluster, session, ledger))

    create = _with_session(namespaces.AsyncNamespaces.create)
    describe = _with_session(namespaces.AsyncNamespaces.describe)
    update = _with_session(namespaces.AsyncNamespaces.update)
    delete = _with_session(namespaces.AsyncNamespaces.delete)
    renew = _with_session(namespaces.AsyncNamespaces.renew)
    release = _with_session(namespaces.AsyncNamespaces.release)


class TreeChanges(_Verbs[reshaping.TreeChanges]):
    """As the product's."""

    def __init__(self, configuration: Configuration, **waits: float) -> None:
        super().__init__(lambda session: reshaping.TreeChanges(configuration, session, **waits))

    add = _with_session(reshaping.TreeChanges.add)
    remove = _with_session(reshaping.TreeChanges.remove)


class AsyncLinkOperations(_Verbs[operations.AsyncLinkOperations]):
    """As the product's."""

    def __init__(self, configuration: Configuration, name: str) -> None:
        super().__init__(lambda session: operations.AsyncLinkOperations(configuration, session, name))

    pause = _with_session(operations.AsyncLinkOperations.pause)
    resume = _with_session(operations.AsyncLinkOperations.resume)
    change_settings = _with_session(operations.AsyncLinkOperations.change_settings)
    quarantine = _with_session(operations.AsyncLinkOperations.quarantine)
    replay = _with_session(operations.AsyncLinkOperations.replay)
    take_over = _with_session(operations.AsyncLinkOperations.take_over)


async def examine(configuration: Configuration) -> list[Finding]:
    """As the product's."""
    async with ClientSession() as session:
        return await doctor.examine(configuration, session)


async def provenance_of(configuration: Configuration, topic: str) -> Provenance:
    """As the product's."""
    async with ClientSession() as session:
        return await provenance.provenance_of(Opened(configuration, session), topic)


async def pause(link: Link, **part: Any) -> bool:
    """As the product's."""
    return await AsyncLinkOperations(configuration_of(link), link.name).pause(**part)


async def resume(link: Link, **part: Any) -> Resumed:
    """As the product's."""
    return await AsyncLinkOperations(configuration_of(link), link.name).resume(**part)


async def forget(link: Link, topics: Collection[str], ledger: LedgerSettings) -> tuple[Forgotten, ...]:
    """As the product's."""
    async with ClientSession() as session:
        return await forgetting.forget(link, session, topics, ledger)


async def forget_link(cluster: Cluster, link: str, ledger: LedgerSettings) -> tuple[str, ...]:
    """As the product's."""
    async with ClientSession() as session:
        return await forgetting.forget_link(session.client(cluster), link, ledger)


async def remember(links: Sequence[Link], declared: Iterable[str]) -> None:
    """As the product's."""
    async with ClientSession() as session:
        await lastknown.remember(links, session, declared)


@contextlib.asynccontextmanager
async def client_move(link: Link, chosen: Collection[NamespaceMap], **given: Any) -> AsyncIterator[ClientMove]:
    """As the product's."""
    async with ClientSession() as session, clientmoves.client_move(link, session, chosen, **given) as move:
        yield move


@contextlib.asynccontextmanager
async def open_declarations(
    configuration: Configuration,
) -> AsyncIterator[tuple[declarations.Declarations, Declared]]:
    """As the product's."""
    async with ClientSession() as session:
        yield await declarations.read_declarations(configuration, session)
