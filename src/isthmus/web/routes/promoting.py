"""The routes by which followers become leaders, or follow no more. Each is answered with an operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response

from isthmus.fabric.answers import Promoter
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
_Verb = Callable[[Promoter], Awaitable[Promotion]]


def promoting_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all of them; an admin may use them. With If-Match the link has to be as it was read."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["links"])
    _leaving(router, desk, operations)
    _leading(router, desk, operations)
    return router


async def _submit(
    desk: FabricDesk,
    operations: Operations,
    promoter: Promoter,
    name: str,
    verb: _Verb,
    caller: Caller,
    if_match: str | None,
    details: Json,
) -> LongOperation:
    async def work(on_step: OnStep) -> Promotion:
        return await verb(replace(promoter, on_step=on_step))

    await desk.check_known(promoter.name, if_match)
    return operations.begin(name, promoter.name, caller, details, work, subject=promoter.name)


def _leaving(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    async def leave(
        name: str, link: str, body: LeaveBody | None, caller: Caller, if_match: str | None, *, dry_run: bool
    ) -> LongOperation:
        body = body or LeaveBody()
        promoter = AsyncFabric(desk.configuration).link(link).promoter(body.maps, timeout_s=body.timeout_s)

        def verb(chosen: Promoter) -> Awaitable[Promotion]:
            return chosen.detach(dry_run=dry_run) if name == "detach" else chosen.failover(dry_run=dry_run)

        details = {**sent_members(body), "dry_run": dry_run}
        return await _submit(desk, operations, promoter, name, verb, caller, if_match, details)

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
    def promoter_of(link: str, body: PromoteBody | ReverseBody) -> Promoter:
        timeout_s = max(body.timeout_s, body.quiet_s)
        chosen = AsyncFabric(desk.configuration).link(link)
        return chosen.promoter(quiet_s=body.quiet_s, timeout_s=timeout_s)

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
        body = body or PromoteBody()
        promoter = replace(promoter_of(link, body), maps=body.maps, max_lag=body.max_lag)
        details = {**sent_members(body), "dry_run": dry_run}
        operation = await _submit(
            desk, operations, promoter, "promote", lambda one: one.promote(dry_run=dry_run), caller, if_match, details
        )
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

        def verb(one: Promoter) -> Awaitable[Promotion]:
            return one.reverse(body.as_link, dry_run=dry_run)

        operation = await _submit(desk, operations, promoter_of(link, body), "reverse", verb, caller, if_match, details)
        return accept_operation(operation, response)
