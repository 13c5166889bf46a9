"""The routes that declare trees on their clusters: create, update, delete."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import DeclaredTree
from isthmus.model.registers import difference
from isthmus.web.access.auditing import log_change
from isthmus.web.access.roles import Admin
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import ONLY_TOLD, DryRun, IfMatch, refuse_if_match
from isthmus.web.desk import FabricDesk, add_etag
from isthmus.web.routes.bodies import TreeBody, TreeChangeBody, sent_members

_Validate = Annotated[bool, Query(description="Examine all clusters first: false declares the tree unseen.")]


def tree_declaring_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them; an admin may use them."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["trees"])

    @router.post(
        "/trees",
        status_code=HTTPStatus.CREATED,
        responses=ONLY_TOLD,
        dependencies=[Depends(refuse_if_match)],
        summary="Create a tree on all its clusters, after examining them",
    )
    async def create_tree(
        body: TreeBody, response: Response, caller: Admin, validate: _Validate = True, dry_run: DryRun = False
    ) -> DeclaredTree:
        with log_change(
            caller, "create tree", body.name, {**sent_members(body), "validate": validate, "dry_run": dry_run}
        ):
            async with desk.open_file_fabric(is_change=True) as fabric:
                declared = await fabric.declared_trees.create(
                    body.name,
                    body.clusters,
                    body.settings,
                    cluster_ids=body.cluster_ids,
                    validate=validate,
                    dry_run=dry_run,
                )
        if dry_run:
            response.status_code = HTTPStatus.OK
        return add_etag(declared, response)

    @router.patch("/trees/{tree}", summary="Change settings of a declared tree; its run follows them")
    async def update_tree(
        tree: str,
        body: TreeChangeBody,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> DeclaredTree:
        if not body.settings:
            raise RequestRefused("nothing is to be changed", status=422, hint="Give settings.")
        with log_change(caller, "update tree", tree, {**sent_members(body), "dry_run": dry_run}) as audit:
            async with desk.known_tree(tree, if_match) as (fabric, before):
                after = await fabric.declared_trees.update(tree, body.settings, dry_run=dry_run)
                audit.update(difference(before, after.declaration.registers))
                return add_etag(after, response)

    @router.delete("/trees/{tree}", summary="Delete a declared tree; topics stay as they are")
    async def delete_tree(
        tree: str, response: Response, caller: Admin, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> DeclaredTree:
        with log_change(caller, "delete tree", tree, {"dry_run": dry_run}) as audit:
            async with desk.known_tree(tree, if_match, half_deleted=True) as (fabric, before):
                after = await fabric.declared_trees.delete(tree, dry_run=dry_run)
                audit.update(difference(before, after.declaration.registers))
                return add_etag(after, response)

    return router
