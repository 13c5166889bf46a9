"""The actions of buttons in pages: each leads back to a page that shows its result."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from isthmus.errors import RequestRefused
from isthmus.web.access.roles import Operator
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import LongOperation, Operations
from isthmus.web.routes.bodies import DrillBody, VerifyBody
from isthmus.web.routes.changing import pause_part, resume_part
from isthmus.web.routes.operating import begin_drill, begin_verify

_FIELDS_MAX: Final = 20


class Form:
    """The fields of a form as a browser sends them."""

    def __init__(self, body: bytes) -> None:
        try:
            self._fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
        except ValueError:
            raise RequestRefused("this is no form of a page of ours", status=400, hint="Load the page again.") from None

    def get(self, name: str) -> str:
        """Return the value of the field, "" for none."""
        return self._fields.get(name, [""])[0]


async def form_of(request: Request) -> Form:
    """Read the form of a request.

    :raises RequestRefused: It is none.
    """
    return Form(await request.body())


def action_routes(desk: FabricDesk, operations: Operations) -> APIRouter:
    """Return all of them, each with the role it needs."""
    router = APIRouter()

    @router.post("/links/{link}/pause")
    async def pause(link: str, request: Request, caller: Operator) -> Response:
        topic = (await form_of(request)).get("topic") or None
        await pause_part(desk, caller, link, {"topic": topic})
        return _to_link(link, topic)

    @router.post("/links/{link}/resume")
    async def resume(link: str, request: Request, caller: Operator) -> Response:
        topic = (await form_of(request)).get("topic") or None
        await resume_part(desk, caller, link, {"topic": topic})
        return _to_link(link, topic)

    @router.post("/links/{link}/verify")
    async def verify(link: str, request: Request, caller: Operator) -> Response:
        form = await form_of(request)
        topic = form.get("topic")
        try:
            body = VerifyBody(
                topics=[topic] if topic else [],
                since=form.get("since").strip() or None,
                allow_lag=form.get("allow_lag") == "yes",
            )
        except ValidationError as error:
            raise _unusable(error) from None
        return _to_operation(await begin_verify(desk, operations, caller, link, body))

    @router.post("/links/{link}/drill")
    async def drill(link: str, request: Request, caller: Operator) -> Response:
        form = await form_of(request)
        try:
            body = DrillBody(group=form.get("group"))
        except ValidationError as error:
            raise _unusable(error) from None
        return _to_operation(await begin_drill(desk, operations, caller, link, body))

    @router.post("/operations/{operation}/cancel")
    async def cancel(operation: str, caller: Operator) -> Response:
        return _to_operation(operations.cancel(operation, caller))

    return router


def redirect(path: str) -> Response:
    """Return the answer to a change: a redirect to a page."""
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})


def _to_link(link: str, topic: str | None) -> Response:
    path = f"/links/{quote(link, safe='')}"
    return redirect(path if topic is None else f"{path}/topics/{quote(topic, safe='')}")


def _to_operation(operation: LongOperation) -> Response:
    return redirect(f"/operations/{operation.id}")


def _unusable(error: ValidationError) -> RequestRefused:
    found = error.errors()[0]
    field = ".".join(str(part) for part in found["loc"])
    return RequestRefused(f"{field}: {found['msg']}", status=422, hint="Go back, and write something else.")
