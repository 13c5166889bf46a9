"""The routes by which followers become leaders, or follow no more. Each is answered with an operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response

from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.links.promotion import Promotion
from isthmus.web.access.guard import Caller
from isthmus.web.access.roles import Admin
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, IfMatch
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import LongOperation, OnStep, Operations
from isthmus.web.routes.bodies import LeaveBody, PromoteBody, ReverseBody, sent_members
from isthmus.web.routes.operating import accept_operation

Json = dict[str, Any]
_Verb = Callable[[AsyncFabric, OnStep], Awaitable[Promotion]]


def promoting_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all of them; an admin may use them. With If-Match the link has to be as it was read."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["links"])
    _leaving(router, desk, operations)
    _leading(router, desk, operations)
    return router


async def _submit(
    desk: FabricDesk,
    operations: Operations,
    link: str,
    name: str,
    verb: _Verb,
    caller: Caller,
    if_match: str | None,
    details: Json,
) -> LongOperation:
    configuration = desk.configuration

    async def work(on_step: OnStep) -> Promotion:
        # In a loop of its own, where connections of requests cannot be used.
        async with AsyncFabric(configuration) as fabric:
            return await verb(fabric, on_step)

    await desk.check_known(link, if_match)
    return operations.begin(name, link, caller, details, work, subject=link)


def _leaving(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    async def leave(
        name: str, link: str, body: LeaveBody | None, caller: Caller, if_match: str | None, *, dry_run: bool
    ) -> LongOperation:
        body = body or LeaveBody()
        maps, timeout_s = body.maps, body.timeout_s

        def verb(fabric: AsyncFabric, on_step: OnStep) -> Awaitable[Promotion]:
            promoter = fabric.link(link).promoter(maps, timeout_s=timeout_s, on_step=on_step)
            return promoter.detach(dry_run=dry_run) if name == "detach" else promoter.failover(dry_run=dry_run)

        details = {**sent_members(body), "dry_run": dry_run}
        return await _submit(desk, operations, link, name, verb, caller, if_match, details)

    @router.post(
        "/links/{link}:detach",
        status_code=HTTPStatus.ACCEPTED,
        summary="Detach namespaces: they follow no longer, and stay reserved",
    )
    async def detach(
        link: str,
        response: Response,
        caller: Admin,
        body: LeaveBody | None = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> LongOperation:
        return accept_operation(await leave("detach", link, body, caller, if_match, dry_run=dry_run), response)

    @router.post(
        "/links/{link}:failover",
        status_code=HTTPStatus.ACCEPTED,
        summary="Fail over: make namespaces writable without the source",
    )
    async def failover(
        link: str,
        response: Response,
        caller: Admin,
        body: LeaveBody | None = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> LongOperation:
        return accept_operation(await leave("failover", link, body, caller, if_match, dry_run=dry_run), response)


def _leading(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        "/links/{link}:promote",
        status_code=HTTPStatus.ACCEPTED,
        summary="Promote: make namespaces writable once they hold all of the source",
    )
    async def promote(
        link: str,
        response: Response,
        caller: Admin,
        body: PromoteBody | None = None,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> LongOperation:
        given = body or PromoteBody()
        details = {**sent_members(given), "dry_run": dry_run}

        def verb(fabric: AsyncFabric, on_step: OnStep) -> Awaitable[Promotion]:
            promoter = fabric.link(link).promoter(
                given.maps,
                quiet_s=given.quiet_s,
                timeout_s=max(given.timeout_s, given.quiet_s),
                max_lag=given.max_lag,
                on_step=on_step,
            )
            return promoter.promote(dry_run=dry_run)

        operation = await _submit(desk, operations, link, "promote", verb, caller, if_match, details)
        return accept_operation(operation, response)

    @router.post(
        "/links/{link}:reverse",
        status_code=HTTPStatus.ACCEPTED,
        summary="Reverse a link: leader and follower change places",
    )
    async def reverse(
        link: str,
        body: ReverseBody,
        response: Response,
        caller: Admin,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> LongOperation:
        details = {**sent_members(body), "dry_run": dry_run}

        def verb(fabric: AsyncFabric, on_step: OnStep) -> Awaitable[Promotion]:
            promoter = fabric.link(link).promoter(
                quiet_s=body.quiet_s, timeout_s=max(body.timeout_s, body.quiet_s), on_step=on_step
            )
            return promoter.reverse(body.as_link, dry_run=dry_run)

        operation = await _submit(desk, operations, link, "reverse", verb, caller, if_match, details)
        return accept_operation(operation, response)
