"""The routes that keep the partitions of a cluster in balance: leaders elected, replicas moved to other brokers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from isthmus.fabric.answers import Reassignment, ReassignmentState
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.kafka.assignment import Assignments
from isthmus.model.kafka.elections import Election
from isthmus.web.access.auditing import log_change
from isthmus.web.access.roles import Admin, Viewer
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, refuse_if_match
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import LongOperation, OnStep, Operations
from isthmus.web.routes.bodies import ReassignmentBody, sent_members
from isthmus.web.routes.operating import accept_operation

_Topics = Annotated[list[str] | None, Query(description="Only these topics.", max_length=1000)]
_AT = "/clusters/{cluster}/reassignments"


def balancing_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all of them: a viewer may look, an admin change."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", tags=["clusters"])
    _leaders(router, desk)
    _looking(router, desk)
    _moving(router, desk, operations)
    return router


def _leaders(router: APIRouter, desk: FabricDesk) -> None:
    @router.post(
        "/clusters/{cluster}/leaders:elect",
        dependencies=[Depends(refuse_if_match)],
        summary="Elect the preferred replicas that are in sync as leaders",
    )
    async def elect_leaders(
        cluster: str, caller: Admin, topic: _Topics = None, dry_run: DryRun = False
    ) -> tuple[Election, ...]:
        async with desk.cluster(cluster, is_change=True) as known:
            with log_change(caller, "elect leaders", cluster, {"topics": topic, "dry_run": dry_run}):
                elections = await known.elect_leaders(topic or (), dry_run=dry_run)
        return elections


def _looking(router: APIRouter, desk: FabricDesk) -> None:
    @router.get(_AT, summary="List the partitions that are being reassigned")
    async def list_reassignments(cluster: str, _: Viewer) -> tuple[Reassignment, ...]:
        async with desk.reassigning(cluster) as known:
            return await known.underway()

    @router.get(_AT + "/plan", summary="Plan an even assignment, as POST takes it, without moving anything")
    async def plan_reassignments(
        cluster: str,
        _: Viewer,
        topic: _Topics = None,
        broker: Annotated[list[int] | None, Query(description="Only to these brokers.", max_length=1000)] = None,
        replicas: Annotated[int | None, Query(ge=1, le=1000, description="So many of each partition.")] = None,
    ) -> Assignments:
        async with desk.reassigning(cluster) as known:
            made = await known.plan(topic or (), brokers=broker or (), replicas=replicas)
        return Assignments.of(made.after)


def _moving(router: APIRouter, desk: FabricDesk, operations: Operations) -> None:
    @router.post(
        _AT,
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[Depends(refuse_if_match)],
        summary="Reassign partitions, throttled, and wait until they have moved",
    )
    async def reassign(
        cluster: str, body: ReassignmentBody, response: Response, caller: Admin, dry_run: DryRun = False
    ) -> LongOperation:
        async with desk.cluster(cluster):
            pass

        async def work(on_step: OnStep) -> tuple[Reassignment, ...]:
            async with AsyncFabric(desk.configuration) as fabric:
                known = fabric.reassigning(cluster)
                plan = await known.compare(body.assignments)
                if dry_run:
                    return tuple(Reassignment.of(move, ReassignmentState.PLANNED) for move in plan.moves)
                seen = -1

                def report(done: int, of: int) -> None:
                    nonlocal seen
                    if done != seen:
                        on_step(f"{done} of {of} partitions have moved")
                    seen = done

                return await known.execute(plan, throttle_bytes_per_s=body.throttle_bytes_per_s, on_progress=report)

        details = {**sent_members(body), "dry_run": dry_run}
        subject = f"partitions of {cluster}"
        begun = operations.begin("reassign", cluster, caller, details, work, subject=subject, is_of_link=False)
        return accept_operation(begun, response)

    @router.post(
        _AT + ":cancel",
        dependencies=[Depends(refuse_if_match)],
        summary="Cancel reassignments: partitions stay where they were",
    )
    async def cancel_reassignments(
        cluster: str, caller: Admin, topic: _Topics = None, dry_run: DryRun = False
    ) -> tuple[Reassignment, ...]:
        async with desk.reassigning(cluster, is_change=True) as known:
            with log_change(caller, "cancel reassignments", cluster, {"topics": topic, "dry_run": dry_run}):
                return await known.cancel(topic or (), dry_run=dry_run)
