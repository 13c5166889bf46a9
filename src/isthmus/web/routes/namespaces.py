"""The routes about namespaces of a cluster. In a path one is named as in answers: `topic/local-*`, `group/app`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import AsyncNamespaces, Keeping, NamespaceReport
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.registers import Registers, difference
from isthmus.web.access.auditing import log_change
from isthmus.web.access.roles import Admin, Viewer
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import ONLY_TOLD, DryRun, IfMatch, check_match, etag_of, refuse_if_match
from isthmus.web.desk import FabricDesk, require_found
from isthmus.web.routes.bodies import NamespaceBody, NamespaceChangeBody, sent_members

_Named = Annotated[str, Path(description="A prefix with a star behind it, or one whole name.", max_length=300)]
_Exact = Annotated[bool, Query(description="It is one whole name, although there is a star at its end.")]
_AT = "/clusters/{cluster}/namespaces"
_ONE = _AT + "/{kind}/{namespace:path}"


def namespace_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them: a viewer may look, an admin change."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["namespaces"])
    _reading(router, desk)
    _changing(router, desk)
    return router


def _namespace(named: str, kind: NamespaceKind, *, is_exact: bool) -> Namespace:
    return Namespace.of(named, kind, is_exact=is_exact or not named.endswith("*"))


def _answer(report: NamespaceReport, response: Response) -> NamespaceReport:
    # The content of a namespace changes by itself; its declaration does not.
    response.headers["ETag"] = etag_of(report.said)
    return report


def _reading(router: APIRouter, desk: FabricDesk) -> None:
    @router.get(_AT, summary="List the declared namespaces")
    async def list_namespaces(cluster: str, _: Viewer) -> tuple[NamespaceReport, ...]:
        async with desk.cluster(cluster) as there:
            return await there.namespaces.all()

    @router.get(_ONE, summary="Describe a namespace: its topics, links and declarations")
    async def describe_namespace(
        cluster: str, kind: NamespaceKind, namespace: _Named, response: Response, _: Viewer, exact: _Exact = False
    ) -> NamespaceReport:
        asked = _namespace(namespace, kind, is_exact=exact)
        async with desk.cluster(cluster) as there:
            return _answer(await require_found(there.namespaces.describe(asked)), response)


def _changing(router: APIRouter, desk: FabricDesk) -> None:
    @contextlib.asynccontextmanager
    async def open_known(
        cluster: str, asked: Namespace, given: str | None
    ) -> AsyncIterator[tuple[AsyncNamespaces, Registers]]:
        turn = desk.turn(f"namespace {cluster} {asked.kind} {asked}")
        async with turn, desk.cluster(cluster, is_change=True) as there:
            before = await require_found(there.namespaces.describe(asked))
            check_match(given, etag_of(before.said))
            yield there.namespaces, before.registers

    @router.post(
        _AT,
        status_code=HTTPStatus.CREATED,
        responses=ONLY_TOLD,
        dependencies=[Depends(refuse_if_match)],
        summary="Declare a namespace",
    )
    async def create_namespace(
        cluster: str, body: NamespaceBody, response: Response, caller: Admin, dry_run: DryRun = False
    ) -> NamespaceReport:
        async with desk.cluster(cluster, is_change=True) as there:
            with log_change(caller, "create namespace", cluster, {**sent_members(body), "dry_run": dry_run}):
                asked, create = _namespace(body.namespace, body.kind, is_exact=body.exact), there.namespaces.create
                report = await create(asked, reserved=body.reserved, async_only=body.async_only, dry_run=dry_run)
        if dry_run:
            response.status_code = HTTPStatus.OK
        return _answer(report, response)

    @router.patch(_ONE, summary="Reserve or release a namespace, by access rules too")
    async def update_namespace(
        cluster: str,
        kind: NamespaceKind,
        namespace: _Named,
        body: NamespaceChangeBody,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        exact: _Exact = False,
        dry_run: DryRun = False,
    ) -> NamespaceReport:
        if body.is_empty:
            raise RequestRefused("nothing is to be changed", status=422, hint="Give reserved, enforce or async_only.")
        asked, target = _namespace(namespace, kind, is_exact=exact), f"{cluster} {kind} {namespace}"
        wanted, closing = {**sent_members(body), "dry_run": dry_run}, body.closing
        with log_change(caller, "update namespace", target, wanted) as audit:
            async with open_known(cluster, asked, if_match) as (namespaces, before):
                report = await _apply_change(namespaces, asked, body, closing, dry_run=dry_run)
                audit.update(difference(before, report.registers))
                return _answer(report, response)

    @router.delete(_ONE, summary="Delete a namespace that no link has attached; its topics stay")
    async def delete_namespace(
        cluster: str,
        kind: NamespaceKind,
        namespace: _Named,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        exact: _Exact = False,
        dry_run: DryRun = False,
    ) -> NamespaceReport:
        asked, target = _namespace(namespace, kind, is_exact=exact), f"{cluster} {kind} {namespace}"
        wanted = {"dry_run": dry_run}
        with log_change(caller, "delete namespace", target, wanted) as audit:
            async with open_known(cluster, asked, if_match) as (namespaces, before):
                report = await namespaces.delete(asked, dry_run=dry_run)
                audit.update(difference(before, report.registers))
                return _answer(report, response)


async def _apply_change(
    namespaces: AsyncNamespaces, asked: Namespace, body: NamespaceChangeBody, closing: Keeping | None, *, dry_run: bool
) -> NamespaceReport:
    report = None
    if body.reserved is not None or body.async_only is not None:
        report = await namespaces.update(asked, reserved=body.reserved, async_only=body.async_only, dry_run=dry_run)
    if closing is not None:
        report = await namespaces.enforce(
            asked, keep=closing.principals, super_user=closing.has_super_user, dry_run=dry_run
        )
    elif body.enforce is False and body.reserved is not False:
        # A namespace that is released has no rules any more.
        report = await namespaces.relax(asked, dry_run=dry_run)
    assert report is not None  # noqa: S101 - the body is not empty
    return report
