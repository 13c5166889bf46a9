"""The routes about schema registries: their content, their differences from the primary one, and
their synchronization.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from isthmus.fabric.answers import RegistrySummary, SchemasPlan
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.schemas.content import NamedSchemaVersion
from isthmus.web.access.auditing import log_change
from isthmus.web.access.roles import Admin, Viewer
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, refuse_if_match
from isthmus.web.desk import FabricDesk, require_found
from isthmus.web.operations import LongOperation, OnStep, Operations
from isthmus.web.routes.bodies import PrimaryBody, RegistriesBody, sent_members
from isthmus.web.routes.operating import accept_operation


def schema_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all of them: a viewer may look, an admin change."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["schemas"])
    _reading(router, desk)
    _changing(router, desk, operations)
    return router


def _reading(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/schemas", summary="List the schema registries: the primary one, and the contents of each")
    async def list_registries(_: Viewer) -> tuple[RegistrySummary, ...]:
        async with desk.open_file_fabric() as fabric:
            return await fabric.schemas.registries()

    @router.get("/schemas/diff", summary="Compare the schema registries with the primary one")
    async def diff_schemas(
        _: Viewer,
        cluster: Annotated[
            list[str] | None, Query(description="Only the registries of these clusters.", max_length=1000)
        ] = None,
    ) -> tuple[SchemasPlan, ...]:
        async with desk.open_file_fabric() as fabric:
            return await fabric.schemas.plan(cluster or ())

    @router.get("/clusters/{cluster}/schemas", summary="List the versions of all subjects that a schema registry holds")
    async def list_schemas(cluster: str, _: Viewer) -> list[NamedSchemaVersion]:
        async with desk.open_file_fabric() as fabric:
            schemas = fabric.schemas
            held = await require_found(schemas.contents(cluster))
        return held.list_named(partial(schemas.logical, cluster))


def _changing(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        "/schemas:sync",
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(refuse_if_match)],
        summary="Copy the primary schema registry into the others once",
    )
    async def sync_schemas(
        response: Response, caller: Admin, body: RegistriesBody | None = None, dry_run: DryRun = False
    ) -> LongOperation:
        body = body or RegistriesBody()
        configuration = desk.configuration
        # An impossible request is refused before it begins.
        AsyncFabric(configuration).schemas.routes(body.clusters)

        async def work(on_step: OnStep) -> tuple[SchemasPlan, ...]:
            def report(registry: str, done: int, of: int) -> None:
                on_step(f"{registry}: {done} of {of} changes")

            async with AsyncFabric(configuration) as fabric:
                if dry_run:
                    plans = await fabric.schemas.plan(body.clusters, delete_gone=body.delete_gone)
                else:
                    plans = await fabric.schemas.sync(body.clusters, delete_gone=body.delete_gone, on_change=report)
            return plans

        details = {**sent_members(body), "dry_run": dry_run}
        what = ", ".join(body.clusters) or "all registries"
        begun = operations.begin("schemas sync", what, caller, details, work, subject="schemas", is_of_link=False)
        return accept_operation(begun, response)

    @router.post(
        "/schemas:primary",
        dependencies=[Depends(refuse_if_match)],
        summary="Make another schema registry the primary one, once it holds the same",
    )
    async def move_primary(body: PrimaryBody, caller: Admin, dry_run: DryRun = False) -> tuple[SchemasPlan, ...]:
        with log_change(caller, "schemas primary", body.cluster, {**sent_members(body), "dry_run": dry_run}):
            async with desk.open_file_fabric(is_change=True) as fabric:
                plans = await fabric.schemas.move_primary(body.cluster, force=body.force, dry_run=dry_run)
        return plans
