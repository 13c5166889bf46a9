"""The login of people in browsers: by a cookie that stands for a token, and only from pages of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from isthmus.errors import IsthmusError, RequestRefused
from isthmus.web.access.sessions import TERM_S, Sessions
from isthmus.web.access.tokens import Token, TokenFile
from isthmus.web.problems import problem_headers, status_of
from isthmus.web.rendering import page

COOKIE: Final = "isthmus-session"
LOGIN: Final = "/login"
_OF_THE_API: Final = ("/v1", "/metrics", "/livez", "/readyz", "/health")
_SAFE: Final = ("GET", "HEAD")
_OF_ADDRESSES: Final = "/?:@!$&'()*+,;=%#"
"""Characters that stand in addresses as they are, beside letters and digits."""


class ConsoleDoor:
    """The guard's rules for requests to the console: all paths that are not of the API."""

    def __init__(self, tokens: TokenFile) -> None:
        self.sessions = Sessions(tokens)

    @staticmethod
    def leads_to(path: str) -> bool:
        """Return whether a path is one of the console."""
        return not any(path == each or path.startswith(f"{each}/") for each in _OF_THE_API)

    @staticmethod
    def is_open(path: str) -> bool:
        """Return whether the path is open without a login: the login page itself and its static files."""
        return path == LOGIN or path.startswith("/static/")

    @staticmethod
    def is_visit(method: str, headers: Headers) -> bool:
        """Return whether a user follows a link on another site's page, which changes nothing."""
        return (
            method in _SAFE
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )

    @staticmethod
    def check_change(method: str, headers: Headers) -> None:
        """Check that a page of our own asks for a change: browsers send that, and only browsers need the console.

        :raises RequestRefused: It does not say so.
        """
        origin = headers.get("origin")
        is_own = origin is not None and is_of(origin, headers.get("host", ""))
        if method not in _SAFE and not is_own and headers.get("sec-fetch-site") != "same-origin":
            raise RequestRefused(
                "only pages of this console may ask for changes here",
                status=HTTPStatus.FORBIDDEN,
                hint="Programs ask the REST API: /v1/openapi.json describes it.",
            )

    def token(self, headers: Headers) -> Token | None:
        """Return the token of the cookie's session.

        :raises HostError: The tokens cannot be read.
        """
        value = session_of(headers)
        return None if value is None else self.sessions.find(value)

    @staticmethod
    def refusal(error: IsthmusError, scope: Scope) -> Response:
        """Return the answer to a request that is not admitted: a page, or a redirect to the login."""
        headers, status = Headers(scope=scope), status_of(error)
        if status != HTTPStatus.UNAUTHORIZED:
            is_part = headers.get("hx-request") == "true"
            answer = page("problem_part.html" if is_part else "problem.html", status, problem=error, caller=None)
            answer.headers.update(problem_headers(error))
            return answer
        query = scope.get("query_string", b"").decode("latin-1")
        # As it was sent: a name in it may contain characters with a meaning in addresses.
        path = scope.get("raw_path", b"").decode("latin-1") or quote(scope["path"])
        wanted = path + (f"?{query}" if query else "")
        login = LOGIN if scope["method"] not in _SAFE else f"{LOGIN}?next={quote(wanted, safe='/')}"
        if headers.get("hx-request") == "true":
            # For a part of a page that has been open for long, the whole page goes to the login.
            return Response(status_code=HTTPStatus.OK, headers={"HX-Redirect": LOGIN, "Cache-Control": "no-store"})
        return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": login, "Cache-Control": "no-store"})


def is_of(origin: str, host: str) -> bool:
    """Return whether pages of this origin are pages of this host; an invalid origin is of none."""
    with contextlib.suppress(ValueError):
        return urlsplit(origin).netloc == host
    return False


def session_of(headers: Mapping[str, str]) -> str | None:
    """Return the value of the session's cookie, if there is one."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


def session_cookie(value: str, *, is_secure: bool) -> str:
    """Return the header that makes a browser keep a session for itself alone; an empty value ends it."""
    term = TERM_S if value else 0
    secure = "; Secure" if is_secure else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={term}; HttpOnly; SameSite=Strict{secure}"


def local_path(given: str) -> str:
    """Return the path to open after the login: a path of this server as a header has it, whatever the address was."""
    is_local = given.startswith("/") and not given.startswith("//")
    return quote(given, safe=_OF_ADDRESSES) if is_local and given.isprintable() and "\\" not in given else "/"
