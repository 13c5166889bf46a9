"""The routes for links at work: limits, other settings, groups carried once, and forgetting in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from isthmus.errors import RequestRefused
from isthmus.fabric.answers import Forgotten, GroupsPlan, SettingsInForce
from isthmus.model.gateways.registered import ForgottenGateway
from isthmus.model.text.plain import plain
from isthmus.web.access.auditing import log_change
from isthmus.web.access.guard import Caller
from isthmus.web.access.roles import Admin, Operator, Viewer
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import DryRun, IfMatch, check_match, etag_of, refuse_if_match
from isthmus.web.desk import FabricDesk, LinkLimits, limits_of, require_found
from isthmus.web.routes.bodies import ForgetBody, LimitsBody, SettingsBody, sent_members


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenLink:
    """A link that a cluster's ledger has forgotten, and the documents that it had there."""

    link: str
    cluster: str
    documents: list[str]


def tending_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them, each with the role it needs."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1")
    _limits(router, desk)
    _settings(router, desk)
    _groups(router, desk)
    _forgetting(router, desk)
    _forgetting_gateways(router, desk)
    return router


def _limits(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}/limits", tags=["limits"], summary="Get the limits of a link")
    async def read_limits(link: str, response: Response, _: Viewer) -> LinkLimits:
        async with desk.link(link) as (fabric, chosen):
            limits = limits_of((await fabric.link(link).settings()).of(chosen))
        response.headers["ETag"] = etag_of(limits)
        return limits

    @router.put("/links/{link}/limits", tags=["limits"], summary="Change the limits of a link, while it runs")
    async def write_limits(
        link: str,
        body: LimitsBody,
        response: Response,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> LinkLimits:
        with log_change(caller, "limits", link, {"dry_run": dry_run}) as difference:
            async with desk.turn(f"link {link}"), desk.link(link, is_change=True) as (fabric, chosen):
                known = await fabric.link(link).settings()
                before, wanted = limits_of(known.of(chosen)), body.limits
                check_match(if_match, etag_of(before))
                was, given = plain(before), plain(wanted)
                difference.update({key: [was[key], value] for key, value in given.items() if value != was[key]})
                settings = {f"limits.{name}": value for name, value in given.items()}
                if link in (fabric.configuration.declared or ()):
                    await fabric.declarations.update(link, settings=settings, dry_run=dry_run)
                    after = before if dry_run else limits_of((await desk.having(link)).link(link))
                else:
                    await fabric.link(link).change_settings(settings, known=known, dry_run=dry_run)
                    after = before if dry_run else limits_of((await fabric.link(link).settings()).of(chosen))
        response.headers["ETag"] = etag_of(after)
        return wanted if dry_run else after


def _settings(router: APIRouter, desk: FabricDesk) -> None:
    async def change_settings(
        link: str, body: SettingsBody, given: str | None, caller: Caller, *, reset: bool, dry_run: bool
    ) -> tuple[SettingsInForce, str]:
        with log_change(
            caller, "settings", link, {**sent_members(body), "reset": reset, "dry_run": dry_run}
        ) as difference:
            async with desk.turn(f"link {link}"), desk.link(link, is_change=True) as (fabric, chosen):
                one = fabric.link(link)
                known = await one.settings()
                before = known.in_force(chosen)
                check_match(given, etag_of(before))
                found = await one.change_settings(
                    body.settings, unset=body.unset, reset=reset, known=known, dry_run=dry_run
                )
                after = found.in_force(chosen)
                was, now = before.settings, after.settings
                difference.update({key: [was[key], now[key]] for key in now if now[key] != was[key]})
        return after, etag_of(before if dry_run else after)

    @router.get(
        "/links/{link}/settings",
        tags=["limits"],
        summary="Get limits and mm2 of a link, with the ETag for changing them",
    )
    async def read_settings(link: str, response: Response, _: Viewer) -> SettingsInForce:
        async with desk.link(link) as (fabric, chosen):
            found = (await fabric.link(link).settings()).in_force(chosen)
        response.headers["ETag"] = etag_of(found)
        return found

    @router.put(
        "/links/{link}/settings", tags=["limits"], summary="Change limits and mm2 of a link of the file, while it runs"
    )
    async def write_settings(
        link: str,
        body: SettingsBody,
        response: Response,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> SettingsInForce:
        if not (body.settings or body.unset):
            raise RequestRefused("nothing is to be changed", status=422, hint="DELETE has the link go by the file.")
        found, response.headers["ETag"] = await change_settings(
            link, body, if_match, caller, reset=False, dry_run=dry_run
        )
        return found

    @router.delete(
        "/links/{link}/settings", tags=["limits"], summary="Reset the settings of a link to those of the file"
    )
    async def reset_settings(
        link: str,
        response: Response,
        caller: Operator,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> SettingsInForce:
        body = SettingsBody()
        found, response.headers["ETag"] = await change_settings(
            link, body, if_match, caller, reset=True, dry_run=dry_run
        )
        return found


def _groups(router: APIRouter, desk: FabricDesk) -> None:
    @router.post(
        "/links/{link}/groups:sync",
        tags=["groups"],
        dependencies=[Depends(desk.as_read)],
        summary="Carry the positions of all groups once, as a run does continuously",
    )
    async def sync_groups(
        link: str,
        caller: Operator,
        group: Annotated[str | None, Query(description="Only this group.")] = None,
        dry_run: DryRun = False,
    ) -> tuple[GroupsPlan, ...]:
        async with desk.fabric(link, is_change=True) as fabric:
            with log_change(caller, "groups sync", link, {"group": group, "dry_run": dry_run}):
                carry = fabric.groups.plan if dry_run else fabric.groups.sync
                plans = await carry(link=link, group=group)
        return plans


def _forgetting(router: APIRouter, desk: FabricDesk) -> None:
    @router.post(
        "/links/{link}:forget",
        tags=["links"],
        dependencies=[Depends(desk.as_read)],
        summary="Forget topics that a link no longer selects",
    )
    async def forget_topics(
        link: str, caller: Admin, body: ForgetBody | None = None, dry_run: DryRun = False
    ) -> tuple[Forgotten, ...]:
        body = body or ForgetBody()
        async with desk.fabric(link, is_change=True) as fabric:
            with log_change(caller, "forget", link, {**sent_members(body), "dry_run": dry_run}):
                return await fabric.forget(link, body.topics, delete_at_target=body.delete_at_target, dry_run=dry_run)

    @router.post(
        "/clusters/{cluster}/links/{link}:forget",
        tags=["links"],
        dependencies=[Depends(refuse_if_match)],
        summary="Forget a link that is no longer run, in the ledger of its target",
    )
    async def forget_link(cluster: str, link: str, caller: Admin, dry_run: DryRun = False) -> ForgottenLink:
        async with desk.cluster(cluster):
            pass
        with log_change(caller, "forget link", link, {"cluster": cluster, "dry_run": dry_run}):
            async with desk.open_file_fabric(is_change=True) as fabric:
                keys = await require_found(fabric.forget_link(link, cluster=cluster, dry_run=dry_run))
        return ForgottenLink(link=link, cluster=cluster, documents=list(keys))


def _forgetting_gateways(router: APIRouter, desk: FabricDesk) -> None:
    @router.post(
        "/clusters/{cluster}/gateways/{gateway}:forget",
        tags=["links"],
        dependencies=[Depends(refuse_if_match)],
        summary="Forget a silent gateway of a cluster: it has ended",
    )
    async def forget_gateway(
        cluster: str,
        gateway: Annotated[str, Path(description="Its id, or its address.", max_length=300)],
        caller: Admin,
        dry_run: DryRun = False,
    ) -> ForgottenGateway:
        async with desk.cluster(cluster):
            pass
        with log_change(caller, "forget gateway", gateway, {"cluster": cluster, "dry_run": dry_run}) as audit:
            async with desk.fabric(is_change=True) as fabric:
                done = await require_found(fabric.forget_gateway(cluster, gateway, dry_run=dry_run))
            audit["ids"] = list(done.gateway.ids)
        return done
