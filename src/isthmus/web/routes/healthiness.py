"""The routes that orchestrators ask without a token: whether the process lives, whether it is ready, and its health."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from isthmus import __version__
from isthmus.metrics.health import ProcessHealth
from isthmus.model.text.plain import plain
from isthmus.web.answers import AnswerRoute
from isthmus.web.watching import Watch

_UNWELL: Final[dict[str, Any]] = {
    "description": "A run that serves does not do well.",
    "content": {"application/json": {}},
}
_FOR_STRANGERS: Final = ("status", "version")
"""The fields for clients without a token if tokens are needed: reasons and links contain names."""


def health_routes(watch: Watch) -> APIRouter:
    """Return all three. With a run beside the server they answer as with its --metrics; without one, about the server
    itself.
    """
    router = APIRouter(route_class=AnswerRoute, tags=["health"], responses={500: _UNWELL, 503: _UNWELL})

    def respond(request: Request, otherwise: ProcessHealth) -> Response:
        answer = watch.health(request.url.path)
        if answer is None:
            return JSONResponse(plain(otherwise))
        body: dict[str, Any] = plain(answer.body)
        if request.state.caller is None:
            body = {name: value for name, value in body.items() if name in _FOR_STRANGERS}
        return JSONResponse(body, answer.status, {"Cache-Control": "no-store"})

    @router.get("/livez", summary="Check that the server, or the controller of a run, is alive")
    async def livez(request: Request) -> Annotated[Response, ProcessHealth]:
        return respond(request, ProcessHealth(status="ok"))

    @router.get("/readyz", summary="Check that requests are taken, or that a run runs every link")
    async def readyz(request: Request) -> Annotated[Response, ProcessHealth]:
        return respond(request, ProcessHealth(status="ok"))

    @router.get("/health", summary="Check liveness and readiness in one, with the state of each link")
    async def health(request: Request) -> Annotated[Response, ProcessHealth]:
        return respond(request, ProcessHealth(status="healthy", message="The API answers.", version=__version__))

    return router
