"""The assembled REST API: its routes, the rights of callers, and its description."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPBearer

from isthmus import __version__
from isthmus.errors import IsthmusError
from isthmus.web.access.auditing import record_refusal
from isthmus.web.access.door import ConsoleDoor
from isthmus.web.access.guard import BODY_S, Guard, RateLimit
from isthmus.web.access.hardening import Hardened
from isthmus.web.access.tokens import TokenFile
from isthmus.web.answers import DescribedApp
from isthmus.web.console.routes import console_routes
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import OperationEvent, Operations
from isthmus.web.problems import MEDIA_TYPE, ProblemDetails, answer_problems, problem_response
from isthmus.web.rooms import Rooms
from isthmus.web.routes.balancing import balancing_routes
from isthmus.web.routes.changing import changing_routes
from isthmus.web.routes.declaring import declaring_routes
from isthmus.web.routes.healthiness import health_routes
from isthmus.web.routes.namespaces import namespace_routes
from isthmus.web.routes.operating import operating_routes
from isthmus.web.routes.promoting import promoting_routes
from isthmus.web.routes.reading import reading_routes
from isthmus.web.routes.schemas import schema_routes
from isthmus.web.routes.telling import telling_routes
from isthmus.web.routes.tending import tending_routes
from isthmus.web.routes.treedeclaring import tree_declaring_routes
from isthmus.web.watching import LinkEvent, Watch

_bearer = HTTPBearer(auto_error=False, description="A token that isthmus token create printed.")
_PROBLEM: Final[dict[str, Any]] = {
    "description": "A problem (RFC 9457): code is one of ISTH-..., hint is the remedy.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
}


def create_app(
    desk: FabricDesk,
    tokens: TokenFile,
    rate: RateLimit,
    watch: Watch | None = None,
    *,
    is_private: bool = True,
    body_s: float = BODY_S,
) -> FastAPI:
    """Return the API over a fabric. If it `is_private` only callers of this host's loopback names are answered. A body
    has to come within `body_s`.
    """
    watch = watch or Watch(desk.links)
    happenings = watch.happenings
    operations = Operations(lambda each: happenings.publish("operation", each.link or "", each.event()))
    app = DescribedApp(
        others=(ProblemDetails, LinkEvent, OperationEvent),
        title="Isthmus",
        version=__version__,
        description="The functions of the command isthmus, over HTTP; answers are its output with -o json.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=partial(_close_at_shutdown, operations, desk),
        dependencies=[Security(_bearer)],
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
    )
    for routes in (
        reading_routes,
        changing_routes,
        tending_routes,
        declaring_routes,
        tree_declaring_routes,
        namespace_routes,
    ):
        app.include_router(routes(desk))
    for beginning_routes in (operating_routes, promoting_routes, balancing_routes, schema_routes):
        app.include_router(beginning_routes(desk, operations))
    app.include_router(telling_routes(watch, tokens))
    app.include_router(health_routes(watch))
    door = ConsoleDoor(tokens)
    console = console_routes(desk, operations, watch, door.sessions)
    app.include_router(console, include_in_schema=False)

    def answer_refusal(request: Request, error: IsthmusError, extra: Mapping[str, Any]) -> Response:
        record_refusal(request, error)
        if door.leads_to(request.url.path):
            return door.refusal(error, request.scope)
        return problem_response(error, extra)

    answer_problems(app, answer_refusal)
    app.add_middleware(Rooms)
    app.add_middleware(Guard, tokens=tokens, rate=rate, is_private=is_private, door=door, body_s=body_s)
    app.add_middleware(Hardened)
    return app


@contextlib.asynccontextmanager
async def _close_at_shutdown(operations: Operations, desk: FabricDesk, _: FastAPI) -> AsyncIterator[None]:
    yield
    await anyio.to_thread.run_sync(operations.close)
    await desk.aclose()
