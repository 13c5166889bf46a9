"""The routes that pause and resume links, change their selection, and change the targets of distributors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Query, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import DistributorTarget, Filters, FiltersInForce, Resumed
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.links.pauses import Pause, Pauses
from isthmus.model.text.plain import Flat, plain
from isthmus.model.trees.reshaping import Reshaping
from isthmus.web.access.auditing import log_change
from isthmus.web.access.guard import Caller
from isthmus.web.access.roles import Admin, Operator, Viewer, check_role
from isthmus.web.access.tokens import Role
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, IfMatch, check_match, etag_of
from isthmus.web.desk import FabricDesk, require_found
from isthmus.web.routes.bodies import FiltersBody, NeighbourBody, PlaceBody, TargetBody, sent_members

Json = dict[str, Any]
_Topic = Annotated[str | None, Query(description="Only this topic of the link.")]
_Task = Annotated[str | None, Query(description="Only this task of the link, named as in `loops` of its status.")]
_Force = Annotated[
    bool,
    Query(
        description="It is gone for good, and is not asked: records that only it had are lost, and `lost` lists them. "
        "409 if it answers."
    ),
]
_Gone = Annotated[
    tuple[str, ...], Query(description="With `force`, other clusters of the tree that are gone as well.", max_length=64)
]
_Prefix = Annotated[str | None, Query(description="Only topics whose names begin so.", min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedParts:
    """What is paused of a link."""

    link_is_paused: bool
    paused_namespaces: list[str]
    paused_tasks: list[str]
    paused_topics: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPauses:
    """The paused parts of a link, since when and by whom."""

    SCHEMA: ClassVar = "Pauses"

    link: str
    parts: Flat[PausedParts]
    pauses: tuple[Pause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedLink:
    """A link, or the part of it that is named, after it was paused or resumed."""

    SCHEMA: ClassVar = "Paused"

    link: str
    topic: str | None
    namespace: str | None
    task: str | None
    paused: bool
    was_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedLink:
    """A link, or the part of it that is named, after it was resumed, and its other paused parts."""

    SCHEMA: ClassVar = "Resumed"

    paused: Flat[PausedLink]
    parts: Flat[PausedParts]


def changing_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them, each with the role it needs."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1")
    _pausing_routes(router, desk)
    _filter_routes(router, desk)
    _target_routes(router, desk)
    _cluster_routes(router, desk)
    return router


async def pause_part(
    desk: FabricDesk,
    caller: Caller,
    link: str,
    parts: Mapping[str, str | None],
    *,
    if_match: str | None = None,
    dry_run: bool = False,
) -> bool:
    """Pause a link or a part of it; return whether it was paused already.

    :raises RequestRefused: There is none of that name, or other pauses than the caller knows.
    :raises ClusterError: The ledger cannot be read or written.
    """
    details = {**parts, "dry_run": dry_run}
    async with desk.fabric(link, is_change=True) as fabric, desk.turn(f"pauses of {link}"):
        with log_change(caller, "pause", link, details) as difference:
            await _check_pauses(fabric, link, if_match)
            was_paused = await require_found(fabric.link(link).pause(**parts, dry_run=dry_run))
            difference["paused"] = [was_paused, True]
            return was_paused


async def resume_part(
    desk: FabricDesk,
    caller: Caller,
    link: str,
    parts: Mapping[str, str | None],
    *,
    if_match: str | None = None,
    dry_run: bool = False,
) -> Resumed:
    """Resume a link or a part of it; return the parts that were paused, and those that still are.

    :raises RequestRefused: There is none of that name, or other pauses than the caller knows.
    :raises ClusterError: The ledger cannot be read or written.
    """
    details = {**parts, "dry_run": dry_run}
    async with desk.fabric(link, is_change=True) as fabric, desk.turn(f"pauses of {link}"):
        with log_change(caller, "resume", link, details) as difference:
            await _check_pauses(fabric, link, if_match)
            done = await require_found(fabric.link(link).resume(**parts, dry_run=dry_run))
            difference["paused"] = [done.was_paused, False]
            return done


async def _check_pauses(fabric: AsyncFabric, link: str, if_match: str | None) -> None:
    if if_match is not None:
        check_match(if_match, etag_of(_parts(await fabric.link(link).pauses())))


def _parts(paused: Pauses) -> PausedParts:
    return PausedParts(
        link_is_paused=paused.is_whole,
        paused_namespaces=[each.prefix for each in paused.namespaces],
        paused_tasks=[each.name for each in paused.tasks],
        paused_topics=list(paused.topics),
    )


def _pausing_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get(
        "/links/{link}/pause", tags=["links"], summary="Get the paused parts of a link, with the ETag for changing them"
    )
    async def read_pauses(link: str, response: Response, _: Viewer) -> LinkPauses:
        async with desk.fabric(link) as fabric:
            known = await fabric.link(link).pauses()
        response.headers["ETag"] = etag_of(_parts(known))
        return LinkPauses(link=link, parts=_parts(known), pauses=known.authored)

    @router.put("/links/{link}/pause", tags=["links"], summary="Pause a link or a part of it")
    async def pause_link(
        link: str,
        caller: Operator,
        topic: _Topic = None,
        namespace: _Prefix = None,
        task: _Task = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> PausedLink:
        parts = {"topic": topic, "namespace": namespace, "task": task}
        was_paused = await pause_part(desk, caller, link, parts, if_match=if_match, dry_run=dry_run)
        return PausedLink(link=link, **parts, paused=was_paused or not dry_run, was_paused=was_paused)

    @router.put("/links/{link}/resume", tags=["links"], summary="Resume the paused parts of a link")
    async def resume_link(
        link: str,
        caller: Operator,
        topic: _Topic = None,
        namespace: _Prefix = None,
        task: _Task = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> ResumedLink:
        parts = {"topic": topic, "namespace": namespace, "task": task}
        done = await resume_part(desk, caller, link, parts, if_match=if_match, dry_run=dry_run)
        paused = PausedLink(link=link, **parts, paused=done.was_paused and dry_run, was_paused=done.was_paused)
        return ResumedLink(paused=paused, parts=_parts(done.still_paused))


def _filter_routes(router: APIRouter, desk: FabricDesk) -> None:
    async def change_filters(
        link: str, filters: Filters, given: str | None, caller: Caller, *, dry_run: bool
    ) -> tuple[FiltersInForce, str]:
        with log_change(caller, "filters", link) as difference:
            async with desk.turn(f"filters of {link}"), desk.link(link, is_change=True) as (fabric, chosen):
                known = await fabric.filters(link)
                before = known.in_force(chosen)
                check_match(given, etag_of(before))
                found = await fabric.filter(link, filters, known=known, dry_run=dry_run)
                after = found.in_force(chosen)
                was = plain(before)
                difference.update({name: [was[name], now] for name, now in plain(after).items() if now != was[name]})
                difference["dry_run"] = dry_run
        return after, etag_of(before if dry_run else after)

    @router.get(
        "/links/{link}/filters", tags=["filters"], summary="Get the filters of a link, with the ETag for changing them"
    )
    async def read_filters(link: str, response: Response, _: Viewer) -> FiltersInForce:
        async with desk.link(link) as (fabric, chosen):
            found = (await fabric.filters(link)).in_force(chosen)
        response.headers["ETag"] = etag_of(found)
        return found

    @router.put("/links/{link}/filters", tags=["filters"], summary="Replace the filters of a link, while it runs")
    async def write_filters(
        link: str,
        body: FiltersBody,
        response: Response,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> FiltersInForce:
        filters = body.filters
        if filters.is_as_written:
            raise RequestRefused(
                "nothing is to be changed", status=422, hint="DELETE returns to the selection of the file."
            )
        found, response.headers["ETag"] = await change_filters(link, filters, if_match, caller, dry_run=dry_run)
        return found

    @router.delete(
        "/links/{link}/filters", tags=["filters"], summary="Reset the filters of a link to those of the file"
    )
    async def reset_filters(
        link: str,
        response: Response,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> FiltersInForce:
        found, response.headers["ETag"] = await change_filters(link, Filters(), if_match, caller, dry_run=dry_run)
        return found


def _target_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get(
        "/trees/{tree}/targets", tags=["trees"], summary="List the leaves to which the distributors of a tree copy"
    )
    async def read_targets(tree: str, response: Response, _: Viewer) -> list[DistributorTarget]:
        async with desk.fabric() as fabric:
            targets = list(await require_found(fabric.trees.targets(tree)))
        response.headers["ETag"] = etag_of(targets)
        return targets

    @router.put(
        "/trees/{tree}/targets/{cluster}/{level}",
        tags=["trees"],
        summary="Switch a distributor to another leaf of its subtree, while it runs",
    )
    async def switch_target(
        tree: str,
        cluster: str,
        level: int,
        body: TargetBody,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> DistributorTarget:
        details = {**body.model_dump(), "dry_run": dry_run}
        with log_change(caller, "switch", f"{tree}.{cluster}.{level}", details) as difference:
            if body.resend:
                # Messages may come twice.
                check_role(caller, Role.ADMIN)
            async with desk.fabric(is_change=True) as fabric, desk.turn(f"targets of {tree}"):
                if if_match is not None:
                    check_match(if_match, etag_of(await require_found(fabric.trees.targets(tree))))
                switch = fabric.trees.switch
                how = {"force": body.force, "resend": body.resend, "dry_run": dry_run}
                done = await require_found(switch(tree, cluster, level, body.to, **how))
                difference.update(target=[done.target, done.wanted], former=list(done.former))
                return done


@contextlib.asynccontextmanager
async def _reshaping(desk: FabricDesk, tree: str, if_match: str | None) -> AsyncIterator[AsyncFabric]:
    """Open a tree for adding or removing clusters, if it runs as the caller knows it: one change at a time."""
    async with desk.turn(f"tree {tree}"), desk.open_file_fabric(is_change=True) as fabric:
        if if_match is not None:
            check_match(if_match, etag_of(await desk.tree_now(tree)))
        yield fabric


def _add_clusters(change: Reshaping, difference: Json) -> Reshaping:
    difference["clusters"] = plain([change.before.root, change.after.root])
    return change


def _cluster_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.put(
        "/trees/{tree}/clusters/{cluster}",
        tags=["trees"],
        summary="Add a cluster of the file to a running tree",
    )
    async def add_cluster(
        tree: str,
        cluster: str,
        body: PlaceBody,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Reshaping:
        details = {**sent_members(body), "cluster": cluster, "dry_run": dry_run}
        with log_change(caller, "add to tree", tree, details) as difference:
            async with _reshaping(desk, tree, if_match) as fabric:
                change = await fabric.tree_changes.add(
                    (await desk.tree(tree)).tree.name,
                    cluster,
                    beside=body.beside,
                    among=body.among,
                    level=body.level,
                    without_left=body.without_left,
                    dry_run=dry_run,
                )
                return _add_clusters(change, difference)

    @router.delete(
        "/trees/{tree}/clusters/{cluster}",
        tags=["trees"],
        summary="Remove a cluster from a running tree; 409 while data would be lost",
    )
    async def remove_cluster(
        tree: str,
        cluster: str,
        caller: Admin,
        force: _Force = False,
        gone: _Gone = (),
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Reshaping:
        details: dict[str, Any] = {"cluster": cluster, "force": force, "gone": list(gone), "dry_run": dry_run}
        with log_change(caller, "remove from tree", tree, details) as difference:
            async with _reshaping(desk, tree, if_match) as fabric:
                remove, name = fabric.tree_changes.remove, (await desk.tree(tree)).tree.name
                change = await remove(name, cluster, force=force, gone=gone, dry_run=dry_run)
                difference["lost"] = plain(change.loss)
                return _add_clusters(change, difference)

    @router.post(
        "/trees/{tree}/clusters/{cluster}:move",
        tags=["trees"],
        summary="Move a cluster within a running tree; 409 names the pending conditions",
    )
    async def move_cluster(
        tree: str,
        cluster: str,
        body: NeighbourBody,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Reshaping:
        details = {**sent_members(body), "cluster": cluster, "dry_run": dry_run}
        with log_change(caller, "move in tree", tree, details) as difference:
            async with _reshaping(desk, tree, if_match) as fabric:
                move, name = fabric.tree_changes.move, (await desk.tree(tree)).tree.name
                change = await move(name, cluster, beside=body.beside, level=body.level, dry_run=dry_run)
                return _add_clusters(change, difference)
