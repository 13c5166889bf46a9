"""The assembled console: its pages, its actions, and the login."""

from __future__ import annotations

from http import HTTPStatus

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.errors import RequestRefused
from isthmus.web.access.door import COOKIE, LOGIN, local_path, session_cookie
from isthmus.web.access.sessions import Sessions
from isthmus.web.assets import assets
from isthmus.web.console.actions import action_routes, form_of, redirect
from isthmus.web.console.looks import Looks
from isthmus.web.console.pages import page_routes
from isthmus.web.desk import FabricDesk
from isthmus.web.operations import Operations
from isthmus.web.rendering import page
from isthmus.web.watching import Watch


def console_routes(desk: FabricDesk, operations: Operations, watch: Watch, sessions: Sessions) -> APIRouter:
    """Return all of them."""
    router = APIRouter()
    router.include_router(page_routes(Looks(desk, watch), operations))
    router.include_router(action_routes(desk, operations))
    _entering(router, sessions)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        found = assets().get(name)
        if found is None:
            raise RequestRefused(f"there is no {name}", status=HTTPStatus.NOT_FOUND)
        return Response(
            found.content, media_type=found.media_type, headers={"Cache-Control": "public, max-age=31536000, immutable"}
        )

    return router


def _entering(router: APIRouter, sessions: Sessions) -> None:
    def login_page(request: Request, wanted: str, *, is_refused: bool = False) -> Response:
        status = HTTPStatus.UNAUTHORIZED if is_refused else HTTPStatus.OK
        return page("login.html", status, caller=request.state.caller, wanted=wanted, is_refused=is_refused)

    @router.get(LOGIN)
    async def ask_for_token(request: Request) -> Response:
        return login_page(request, local_path(request.query_params.get("next", "/")))

    @router.post(LOGIN)
    async def log_in(request: Request) -> Response:
        form = await form_of(request)
        wanted = local_path(form.get("next") or "/")
        value = await run_sync(sessions.open, form.get("token").strip())
        if value is None:
            return login_page(request, wanted, is_refused=True)
        answer = redirect(wanted)
        answer.headers["Set-Cookie"] = session_cookie(value, is_secure=request.url.scheme == "https")
        return answer

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        sessions.close(request.cookies.get(COOKIE, ""))
        answer = redirect(LOGIN)
        answer.headers["Set-Cookie"] = session_cookie("", is_secure=request.url.scheme == "https")
        return answer
