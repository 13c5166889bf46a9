"""The routes that orchestrators ask without a token: whether the process lives, whether it is ready, how it does."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from isthmus import __version__
from isthmus.web.watching import Watch

_FOR_STRANGERS: Final = ("status", "version")
"""Reasons and links have names in them, which nobody is told who sends no token where tokens are needed."""


def health_routes(watch: Watch) -> APIRouter:
    """All three. Of a run that serves they answer what it answers with --metrics; else the server itself is meant."""
    router = APIRouter(tags=["health"])

    def told(request: Request, otherwise: dict[str, Any]) -> Response:
        answer = watch.health(request.url.path)
        if answer is None:
            return JSONResponse(otherwise)
        body = answer.body
        if request.state.caller is None:
            body = {name: value for name, value in body.items() if name in _FOR_STRANGERS}
        return JSONResponse(body, answer.status, {"Cache-Control": "no-store"})

    @router.get("/livez", summary="Whether the server answers; of a run that serves, whether its controller lives")
    async def livez(request: Request) -> Response:
        return told(request, {"status": "ok"})

    @router.get("/readyz", summary="Whether requests are taken; of a run that serves, whether it runs every link")
    async def readyz(request: Request) -> Response:
        return told(request, {"status": "ok"})

    @router.get("/health", summary="Both in one; of a run that serves with how each link stands")
    async def health(request: Request) -> Response:
        return told(request, {"status": "healthy", "message": "The API answers.", "version": __version__})

    return router
