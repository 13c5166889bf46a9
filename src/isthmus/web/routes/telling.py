"""The routes of running reports: events as they happen, and metrics."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from isthmus.deadline import Deadline
from isthmus.errors import RequestRefused
from isthmus.web.access.guard import is_let_in
from isthmus.web.access.roles import Viewer
from isthmus.web.access.tokens import TokenFile
from isthmus.web.events import encode_event
from isthmus.web.watching import Watch, link_event

_FIRST_S: Final = 10.0
_PAUSE_S: Final = 0.1
_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}
_EVENTS: Final = "Events, without end: the data of `link` is a LinkEvent, that of `operation` an OperationEvent."


def telling_routes(watch: Watch, tokens: TokenFile) -> APIRouter:
    """Return both; a viewer may use them."""
    router = APIRouter()

    @router.get(
        "/v1/events",
        tags=["events"],
        summary="Stream changes of links and operations, as server-sent events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": _TEXT}, "description": _EVENTS}},
    )
    async def listen(
        caller: Viewer,
        link: Annotated[str | None, Query(description="Only of this link.")] = None,
        last_event_id: Annotated[str | None, Header(description="Go on behind this one, as far as kept.")] = None,
    ) -> StreamingResponse:
        listener = watch.happenings.listen(link, last_event_id, caller.identity)
        watch.want()
        known = [] if last_event_id else [each for each in watch.read_state() if link in (None, each.link)]
        first = [encode_event("link", link_event(each)) for each in known]
        return StreamingResponse(
            watch.happenings.stream(listener, first, lambda: is_let_in(caller, tokens)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    @router.get(
        "/metrics",
        tags=["events"],
        summary="Read the metrics for Prometheus, as isthmus run --metrics serves them",
        response_class=Response,
        responses={200: {"content": {"text/plain": _TEXT}, "description": "In the newest format that is accepted."}},
    )
    async def metrics(_: Viewer, accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        watch.want()
        deadline = Deadline(_FIRST_S)
        # No thread is blocked meanwhile: others need it.
        while watch.fresh is None and not deadline.has_passed:
            await asyncio.sleep(_PAUSE_S)
        if watch.fresh is None:
            raise RequestRefused("how the links stand is not known now", status=503, hint="Ask again.", retry_after_s=5)
        body, content_type = watch.answers.metrics(accept)
        return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    return router
