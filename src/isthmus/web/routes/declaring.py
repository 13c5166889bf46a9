"""The routes that declare links on their clusters: create, update, attach, reattach, delete."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import DeclaredLink
from isthmus.model.registers import difference
from isthmus.web.access.auditing import log_change
from isthmus.web.access.guard import Caller
from isthmus.web.access.roles import Admin
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import ONLY_TOLD, DryRun, IfMatch, refuse_if_match
from isthmus.web.desk import FabricDesk, add_etag
from isthmus.web.routes.bodies import AttachBody, LinkBody, LinkChangeBody, sent_members

_Validate = Annotated[bool, Query(description="Examine both clusters first: false declares the link unseen.")]


def declaring_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them; an admin may use them."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["links"])
    _whole(router, desk)
    _namespaces(router, desk)
    return router


def _whole(router: APIRouter, desk: FabricDesk) -> None:
    @router.post(
        "/links",
        status_code=HTTPStatus.CREATED,
        responses=ONLY_TOLD,
        dependencies=[Depends(refuse_if_match)],
        summary="Create a link on both its clusters, after examining them",
    )
    async def create_link(
        body: LinkBody, response: Response, caller: Admin, validate: _Validate = True, dry_run: DryRun = False
    ) -> DeclaredLink:
        source, target = body.ends
        with log_change(
            caller, "create link", body.link, {**sent_members(body), "validate": validate, "dry_run": dry_run}
        ):
            async with desk.open_file_fabric(is_change=True) as fabric:
                declared = await fabric.declarations.create(
                    body.link,
                    source=source.alias,
                    target=target.alias,
                    maps=body.maps,
                    mode=body.mode,
                    settings=body.settings,
                    cluster_ids={end.alias: end.cluster_id for end in (source, target) if end.cluster_id},
                    validate=validate,
                    enforce=body.closing,
                    dry_run=dry_run,
                )
        if dry_run:
            response.status_code = HTTPStatus.OK
        return add_etag(declared, response)

    @router.patch("/links/{link}", summary="Change settings of a declared link; its run follows them")
    async def update_link(
        link: str,
        body: LinkChangeBody,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> DeclaredLink:
        if not body.settings and body.mode is None:
            raise RequestRefused("nothing is to be changed", status=422, hint="Give settings or mode.")
        wanted = {**sent_members(body), "dry_run": dry_run}
        with log_change(caller, "update link", link, wanted) as audit:
            async with desk.open_for_change(link, if_match, is_needed=True) as (fabric, before):
                update = fabric.declarations.update
                after = await update(link, settings=body.settings, mode=body.mode, dry_run=dry_run)
                audit.update(difference(before, after.declaration.registers))
                return add_etag(after, response)

    @router.delete("/links/{link}", summary="Delete a declared link: all is detached, topics stay as they are")
    async def delete_link(
        link: str, response: Response, caller: Admin, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> DeclaredLink:
        wanted = {"dry_run": dry_run}
        with log_change(caller, "delete link", link, wanted) as audit:
            async with desk.open_for_change(link, if_match, is_needed=True, half_deleted=True) as (fabric, before):
                after = await fabric.declarations.delete(link, dry_run=dry_run)
                audit.update(difference(before, after.declaration.registers))
                return add_etag(after, response)


def _namespaces(router: APIRouter, desk: FabricDesk) -> None:
    async def attach_namespaces(
        verb: str, link: str, body: AttachBody, caller: Caller, given: str | None, *, dry_run: bool
    ) -> DeclaredLink:
        closing = body.closing
        with log_change(caller, verb, link, {**sent_members(body), "dry_run": dry_run}) as audit:
            async with desk.open_for_change(link, given) as (fabric, before):
                links = fabric.declarations
                follow = links.attach if verb == "attach" else links.reattach
                after = await follow(link, body.maps, enforce=closing, dry_run=dry_run)
                audit.update(difference(before, after.declaration.registers))
                return after

    @router.post(
        "/links/{link}:attach",
        summary="Attach namespaces: they follow the source, and become reserved",
    )
    async def attach(
        link: str,
        body: AttachBody,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> DeclaredLink:
        if not body.attached:
            raise RequestRefused("no namespace is named", status=422, hint="Name them in attached.")
        return add_etag(await attach_namespaces("attach", link, body, caller, if_match, dry_run=dry_run), response)

    @router.post(
        "/links/{link}:reattach",
        summary="Reattach detached namespaces, all of them where none is named",
    )
    async def reattach(
        link: str,
        response: Response,
        caller: Admin,
        body: AttachBody | None = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> DeclaredLink:
        after = await attach_namespaces("reattach", link, body or AttachBody(), caller, if_match, dry_run=dry_run)
        return add_etag(after, response)
