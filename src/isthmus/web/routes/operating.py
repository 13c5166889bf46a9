"""The routes about operations, and of the verbs that are answered with an operation before they are done."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, Depends, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import GroupDrill, QuarantineFilter, ReplayedPartition, Waiting, now_ms
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.links.recovery import Recovery
from isthmus.model.text.instant import parse_instant
from isthmus.status.condition import WaitCondition
from isthmus.web.access.guard import Caller
from isthmus.web.access.roles import Admin, Operator, Viewer
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, refuse_if_match
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import LongOperation, OnStep, OperationKind, Operations, WaitResult
from isthmus.web.routes.bodies import (
    DrillBody,
    RecoverBody,
    ReplayBody,
    TreeVerifyBody,
    VerifyBody,
    WaitBody,
    sent_members,
)
from isthmus.web.routes.verifying import LinkVerification, TreeVerification


def operating_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all but those about leaders and followers, each with the role it needs."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1")
    _looking(router, operations)
    _recovering(router, desk, operations)
    _verifying(router, desk, operations)
    _proving(router, desk, operations)
    return router


def accept_operation(operation: LongOperation, response: Response) -> LongOperation:
    """Return the answer to a request that started an operation: the place of its progress."""
    response.headers["Location"] = f"/v1/operations/{operation.id}"
    return operation


def _looking(router: APIRouter, operations: Operations) -> None:
    @router.get(
        "/operations", tags=["operations"], summary="List the operations begun since the server started, newest first"
    )
    def list_operations(_: Viewer) -> list[LongOperation]:
        return operations.all()

    @router.get(
        "/operations/{operation}", tags=["operations"], summary="Get the progress and the result of an operation"
    )
    def read_operation(operation: str, _: Viewer) -> LongOperation:
        return operations.get(operation)

    @router.post(
        "/operations/{operation}:cancel",
        tags=["operations"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(refuse_if_match)],
        summary="Cancel an operation; the same request again resumes it",
    )
    def cancel_operation(operation: str, response: Response, caller: Operator) -> LongOperation:
        return accept_operation(operations.cancel(operation, caller), response)


def _recovering(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        "/links/{link}:recover",
        tags=["recovery"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.as_read)],
        summary="Recover diverged topics: records only the target has are set aside",
    )
    async def recover(
        link: str, response: Response, caller: Admin, body: RecoverBody | None = None, dry_run: DryRun = False
    ) -> LongOperation:
        body = body or RecoverBody()
        configuration = await desk.having(link)

        async def work(on_step: OnStep) -> Recovery:
            async with AsyncFabric(configuration) as fabric:
                recoverer = fabric.link(link).recoverer(
                    body.topics,
                    way=body.way,
                    sets_aside=body.quarantine,
                    quiet_s=body.quiet_s,
                    timeout_s=body.timeout_s,
                    on_step=on_step,
                )
                return await recoverer.recover(dry_run=dry_run)

        details = {**sent_members(body), "dry_run": dry_run}
        return accept_operation(operations.begin("recover", link, caller, details, work, subject=link), response)

    @router.post(
        "/links/{link}/quarantine:replay",
        tags=["recovery"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.as_read)],
        summary="Replay the records set aside of a topic into a topic, each once",
    )
    async def replay(
        link: str, body: ReplayBody, response: Response, caller: Admin, dry_run: DryRun = False
    ) -> LongOperation:
        configuration = await desk.having(link)

        async def work(on_step: OnStep) -> tuple[ReplayedPartition, ...]:
            selected = QuarantineFilter(kind=body.kind, producer_id=body.producer)
            async with AsyncFabric(configuration) as fabric:
                return await fabric.link(link).replay(
                    body.topic,
                    cluster=body.cluster,
                    into=body.into,
                    selected=selected,
                    is_raw=body.raw,
                    dry_run=dry_run,
                    on_step=on_step,
                )

        details = {**sent_members(body), "dry_run": dry_run}
        return accept_operation(operations.begin("replay", link, caller, details, work, subject=link), response)


def _verifying(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        "/links/{link}:verify",
        tags=["links"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.as_read)],
        summary="Verify a link: compare both logs record by record, on Spark",
    )
    async def verify(link: str, response: Response, caller: Operator, body: VerifyBody | None = None) -> LongOperation:
        return accept_operation(await begin_verify(desk, operations, caller, link, body or VerifyBody()), response)

    @router.post(
        "/trees/{tree}:verify",
        tags=["trees"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.tree_as_read)],
        summary="Verify a tree: every record is once on each cluster, in order",
    )
    async def verify_tree(
        tree: str, response: Response, caller: Operator, body: TreeVerifyBody | None = None
    ) -> LongOperation:
        chosen = (await desk.tree(tree)).tree.name
        body = body or TreeVerifyBody()
        work = TreeVerification(file=_file_of(desk), tree=chosen, topics=body.topics).run
        subject = f"tree {chosen} verify"
        begun = operations.begin(
            "verify",
            chosen,
            caller,
            sent_members(body),
            work,
            subject=subject,
            is_of_link=False,
            kind=OperationKind.COMPARES,
        )
        return accept_operation(begun, response)


def _proving(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        "/links/{link}/groups:drill",
        tags=["groups"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.as_read)],
        summary="Prove that a group could fail over, without failing over",
    )
    async def drill(link: str, body: DrillBody, response: Response, caller: Operator) -> LongOperation:
        return accept_operation(await begin_drill(desk, operations, caller, link, body), response)

    @router.post(
        "/links/{link}:wait",
        tags=["links"],
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(desk.as_read)],
        summary="Wait until a link or a topic meets a condition",
    )
    async def wait(link: str, body: WaitBody, response: Response, caller: Operator) -> LongOperation:
        wanted = [WaitCondition.parse(text, of_topic=body.topic is not None) for text in body.conditions]
        configuration = await desk.having(link)

        async def work(on_step: OnStep) -> WaitResult:
            shown = ""

            def report_look(look: Waiting) -> None:
                nonlocal shown
                if look.described != shown:
                    shown = look.described
                    on_step(f"{shown}; waiting for {look.missing}")

            async with AsyncFabric(configuration) as fabric:
                outcome = await fabric.link(link).wait(
                    body.topic, wanted, timeout_s=body.timeout_s, on_look=report_look
                )
            found = outcome.found
            state = None if found is None else str(found.state)
            return WaitResult(met=outcome.met, state=state, lag_records=outcome.lag_records)

        return accept_operation(
            operations.begin("wait", link, caller, sent_members(body), work, kind=OperationKind.WAITS), response
        )


async def begin_drill(
    desk: FabricDesk, operations: Operations, caller: Caller, link: str, body: DrillBody
) -> LongOperation:
    """Begin to prove a failover of a group.

    :raises RequestRefused: There is no such link, or too many operations are at work.
    """
    configuration = await desk.having(link)

    async def work(on_step: OnStep) -> GroupDrill:
        async with AsyncFabric(configuration) as fabric:
            return await fabric.groups.drill(body.group, link=link, records=body.records, on_step=on_step)

    return operations.begin("drill", link, caller, sent_members(body), work, kind=OperationKind.COMPARES)


async def begin_verify(
    desk: FabricDesk, operations: Operations, caller: Caller, link: str, body: VerifyBody
) -> LongOperation:
    """Begin to compare both logs of a link.

    :raises RequestRefused: There is no such link, it is compared already, or too many operations are at work.
    """
    await desk.having(link)
    verification = _verification(_file_of(desk), link, body)
    return operations.begin(
        "verify",
        link,
        caller,
        sent_members(body),
        verification.run,
        subject=f"{link} verify",
        kind=OperationKind.COMPARES,
    )


def _file_of(desk: FabricDesk) -> Path:
    if desk.file is None:
        raise RequestRefused(
            "this server has no configuration file, which isthmus verify would read",
            status=HTTPStatus.CONFLICT,
            hint="Start it with -c in place of -b.",
        )
    return desk.file


def _verification(file: Path, link: str, body: VerifyBody) -> LinkVerification:
    for instant in (body.since, body.until):
        if instant is not None:
            parse_instant(instant, now_ms=now_ms())
    return LinkVerification(
        file=file, link=link, topics=body.topics, since=body.since, until=body.until, allow_lag=body.allow_lag
    )
