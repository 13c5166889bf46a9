"""The pages that change nothing. Only those of plans, groups and statements ask a cluster."""

from __future__ import annotations

from typing import Annotated, Final
from zlib import crc32

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from isthmus.errors import RequestRefused
from isthmus.model.text.plain import plain
from isthmus.model.trees.drawing import svg_of
from isthmus.web.access.auditing import trail
from isthmus.web.access.roles import Viewer
from isthmus.web.console.chart import series_of, told_of_lag, told_of_rate
from isthmus.web.console.looks import Looks
from isthmus.web.console.rows import SORTS, TopicChoice, page_of
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import Operations
from isthmus.web.rendering import page

_Text = Annotated[str, Query(max_length=300)]
_ROWS_MAX: Final = 500


def page_routes(looks: Looks, operations: Operations) -> APIRouter:
    """Return all of them; a viewer may use them."""
    router = APIRouter()
    _overview(router, looks)
    _link_pages(router, looks)
    _slow_pages(router, looks)
    _done_pages(router, operations, looks.desk)
    return router


def _overview(router: APIRouter, looks: Looks) -> None:
    @router.get("/")
    def overview(caller: Viewer) -> Response:
        links = looks.links()
        return page(
            "overview.html",
            caller=caller,
            at_ms=looks.at_ms,
            links=links,
            by_name={each.link: each for each in links},
            rates={each.link: looks.history.rate(each.link) for each in links},
            atlas=looks.atlas(links),
            trees=[each.tree for each in looks.desk.latest.trees],
        )

    @router.get("/trees/{tree}")
    def tree_page(tree: str, caller: Viewer) -> Response:
        for each in looks.desk.latest.trees:
            if each.tree.name == tree:
                known = {link.link: link for link in looks.links()}
                # The drawing has an address of its own, which changes with it: it is loaded again only then.
                drawing = f"{crc32(svg_of(each.tree).encode()):x}"
                return page("tree.html", caller=caller, at_ms=looks.at_ms, tree=each.tree, known=known, drawing=drawing)
        raise RequestRefused(f"there is no tree {tree}", status=404, hint="The map lists the trees there are.")

    @router.get("/trees/{tree}/drawing.svg")
    def tree_drawing(tree: str, _: Viewer) -> Response:
        for each in looks.desk.latest.trees:
            if each.tree.name == tree:
                return Response(svg_of(each.tree), media_type="image/svg+xml")
        raise RequestRefused(f"there is no tree {tree}", status=404)


def _link_pages(router: APIRouter, looks: Looks) -> None:
    @router.get("/links/{link}")
    def link_page(
        link: str,
        request: Request,
        caller: Viewer,
        sort: _Text = "lag",
        search: _Text = "",
        state: _Text = "",
        number: Annotated[int, Query(alias="page", ge=1, le=1_000_000)] = 1,
    ) -> Response:
        found = looks.link(link)
        samples = looks.history.of(link)
        chosen = TopicChoice(sort=sort, search=search, state=state, page=number)
        query = request.url.query
        return page(
            "link.html",
            caller=caller,
            at_ms=looks.at_ms,
            name=link,
            link=found,
            address=request.url.path + (f"?{query}" if query else ""),
            topics=page_of(() if found is None else looks.rows(found), chosen),
            sorts=[*SORTS],
            rate=looks.history.rate(link),
            lag_told=told_of_lag(samples),
            rate_told=told_of_rate(samples),
        )

    @router.get("/links/{link}/history")
    def history(link: str, _: Viewer) -> Response:
        return JSONResponse(series_of(looks.history.of(link)), headers={"Cache-Control": "no-store"})

    @router.get("/links/{link}/topics/{topic}")
    def topic_page(link: str, topic: str, caller: Viewer) -> Response:
        found = looks.link(link)
        for each in () if found is None else looks.rows(found):
            if topic == each.topic.topic:
                return page("topic.html", caller=caller, at_ms=looks.at_ms, name=link, row=each, shown_max=_ROWS_MAX)
        raise RequestRefused(f"link {link} has no topic {topic}", status=404, hint="The link's page lists them.")


def _slow_pages(router: APIRouter, looks: Looks) -> None:
    """Add the pages that ask both clusters: each is there at once, and its content follows."""

    @router.get("/links/{link}/groups")
    async def groups_page(link: str, caller: Viewer, part: bool = False) -> Response:
        if not part:
            await looks.desk.having(link)
            return page("groups.html", caller=caller, name=link, plans=None, shown_max=_ROWS_MAX)
        async with looks.desk.fabric(link) as fabric:
            plans = await fabric.groups.plan(link=link)
        return page("groups_part.html", caller=caller, name=link, plans=plans, shown_max=_ROWS_MAX)

    @router.get("/gateways")
    async def gateways_page(caller: Viewer, part: bool = False) -> Response:
        if not part:
            return page("gateways.html", caller=caller)
        async with looks.desk.fabric() as fabric:
            found = await fabric.gateways()
        return page("gateways_part.html", caller=caller, found=found)

    @router.get("/links/{link}/overruled")
    async def overruled_part(link: str, caller: Viewer) -> Response:
        async with looks.desk.fabric(link) as fabric:
            is_declared = link in (fabric.configuration.declared or ())
            declared = await fabric.declarations.describe(link) if is_declared else None
        return page("overruled_part.html", caller=caller, declared=declared)

    @router.get("/links/{link}/plan")
    async def plan_page(link: str, caller: Viewer, part: bool = False) -> Response:
        if not part:
            await looks.desk.having(link)
            return page("plan.html", caller=caller, name=link, plan=None, shown_max=_ROWS_MAX)
        async with looks.desk.fabric(link) as fabric:
            (plan,) = (await fabric.plan(link=link)).links
        return page("plan_part.html", caller=caller, name=link, plan=plan, shown_max=_ROWS_MAX)


def _done_pages(router: APIRouter, operations: Operations, desk: FabricDesk) -> None:
    @router.get("/operations")
    def operations_page(caller: Viewer) -> Response:
        return page("operations.html", caller=caller, operations=operations.all())

    @router.get("/operations/{operation}")
    def operation_page(operation: str, caller: Viewer) -> Response:
        found = operations.get(operation)
        is_stopped_by = found.is_stopped_by(caller)
        return page("operation.html", caller=caller, operation=plain(found), is_stopped_by=is_stopped_by)

    @router.get("/changes")
    def changes_page(caller: Viewer) -> Response:
        return page("changes.html", caller=caller, changes=trail()[:_ROWS_MAX])

    @router.get("/changes/held")
    async def held_page(caller: Viewer) -> Response:
        found = await desk.authorship()
        return page("held_part.html", caller=caller, said=found.said[:_ROWS_MAX], away=found.away, shown_max=_ROWS_MAX)
