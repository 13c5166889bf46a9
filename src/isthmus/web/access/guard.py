"""The checks that every request passes before any route runs: host, origin, token, rate and size."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isthmus.errors import HostError, IsthmusError, RequestRefused, TokenRefused
from isthmus.model.process.listening import is_loopback
from isthmus.web.access.door import ConsoleDoor, is_of
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.conditions import CHANGING
from isthmus.web.problems import problem_response, unforeseen
from isthmus.web.replay import RepeatedRequests

BODY_BYTES_MAX: Final = 1 << 20
BODY_S: Final = 10.0
"""The time that a client has to send a body."""
_CALLERS_MAX: Final = 1000
UNDER_WAY_MAX: Final = 64
"""The most unanswered requests of one caller."""
_STRANGER: Final = "@"
"""The prefix of an unknown client's address: a flood from one address blocks no login of others."""
_OPEN: Final = ("/livez", "/readyz", "/health")
"""Orchestrators ask for these without a token."""
_ENDLESS: Final = "/v1/events"
"""Streams have a bound of their own."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, and its role for this one; `sha256` is the hash of its token, "" if none is needed."""

    name: str
    role: Role
    sha256: str = ""

    @property
    def identity(self) -> str:
        """The identity of a caller: a name that was revoked and given again is another one."""
        return self.sha256 or self.name

    @property
    def author(self) -> str:
        """The name of the caller as author in ledgers."""
        return f"{self.name} over REST"


ANYBODY: Final = Caller("local", Role.ADMIN)
"""Every client that can reach the port, if there are no tokens: users of this host."""


def is_let_in(caller: Caller, tokens: TokenFile) -> bool:
    """Return whether a caller that was admitted still would be: its token is not revoked, or it needs none while there
    are none.
    """
    if not caller.sha256:
        return not tokens.is_there
    with contextlib.suppress(HostError):
        return any(token.sha256 == caller.sha256 for token in tokens.all())
    return False


class RateLimit:
    """The limit of requests a second for each caller, with bursts."""

    def __init__(self, per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> int:
        """Return 0 if the caller may continue, else the seconds to wait."""
        now = self._clock()
        left, at = self._left.pop(caller, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_s)
        is_allowed = left >= 1
        self._left[caller] = (left - 1 if is_allowed else left, now)
        if len(self._left) > _CALLERS_MAX:
            self._left.popitem(last=False)
        return 0 if is_allowed else max(1, math.ceil((1 - left) / self._per_s))


class UnderWay:
    """The number of unanswered requests of each caller."""

    def __init__(self, most: int = UNDER_WAY_MAX) -> None:
        self._most = most
        self._of: Counter[str] = Counter()

    @contextlib.contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Count one more for the length of the block.

        :raises RequestRefused: The caller has as many unanswered requests as are allowed.
        """
        if self._of[caller] >= self._most:
            raise RequestRefused(
                f"{self._most} requests of this caller are not answered yet",
                status=HTTPStatus.TOO_MANY_REQUESTS,
                hint="Wait for an answer before the next request.",
                retry_after_s=1,
            )
        self._of[caller] += 1
        try:
            yield
        finally:
            self._of[caller] -= 1
            if not self._of[caller]:
                del self._of[caller]


class Guard:
    """Admit requests to the app; `scope["state"]["caller"]` is their caller: for the API by the token that they send,
    for the console by their session, where the caller may be unknown yet (`None`). A body has to come within `body_s`.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: TokenFile, rate: RateLimit, is_private: bool, door: ConsoleDoor, body_s: float
    ) -> None:
        self._app = app
        self._body_s = body_s
        self._door = door
        self._tokens = tokens
        # Decided once: if the file is lost while the server runs, no caller is admitted.
        self._needs_token = tokens.is_there
        self._rate = rate
        self._under_way = UnderWay()
        self._is_private = is_private
        self._repeated = RepeatedRequests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_tracked(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._check_and_pass(scope, receive, send_tracked)
        except IsthmusError as error:
            await self._refusal(error, scope)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            if not begun:
                await self._refusal(unforeseen(error), scope)(scope, receive, send)

    def _refusal(self, error: IsthmusError, scope: Scope) -> Response:
        return self._door.refusal(error, scope) if self._door.leads_to(scope["path"]) else problem_response(error)

    async def _check_and_pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        path, method = scope["path"], scope["method"]
        is_console = self._door.leads_to(path)
        self._check_host(headers)
        if not (is_console and self._door.is_visit(method, headers)):
            self._check_origin(headers)
        # Once there was a token, no caller is admitted without one.
        self._needs_token = self._needs_token or self._tokens.is_there
        if path in _OPEN and method in ("GET", "HEAD"):
            scope.setdefault("state", {})["caller"] = self._identify(headers)
            await self._app(scope, receive, send)
            return
        if is_console:
            self._door.check_change(method, headers)
        caller = self._visitor(path, headers, scope) if is_console else self._caller(headers, scope)
        scope.setdefault("state", {})["caller"] = caller
        if path == _ENDLESS:
            await self._worked_on(caller, scope, receive, send)
            return
        with self._under_way.one(_stranger(scope) if caller is None else caller.identity):
            await self._worked_on(caller, scope, receive, send)

    async def _worked_on(self, caller: Caller | None, scope: Scope, receive: Receive, send: Send) -> None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        body = await _body(headers, receive, self._body_s)
        replayed = _replaying(body, receive)
        key = headers.get("idempotency-key")
        if key is None or method not in CHANGING or caller is None:
            await self._app(scope, replayed, send)
        else:
            asked = f"{method} {path}?{scope.get('query_string', b'').decode('latin-1')}"
            async with self._repeated.once(caller.identity, key, asked, body, send) as remembering:
                if remembering is not None:
                    await self._app(scope, replayed, remembering)

    def _check_host(self, headers: Headers) -> None:
        """Check that the request is not from a page in a browser whose name was made to lead here."""
        if self._is_private and not _is_here(headers.get("host", "")):
            raise RequestRefused(
                "this host is meant, and was called by another name",
                status=HTTPStatus.MISDIRECTED_REQUEST,
                hint="Ask for 127.0.0.1 or localhost.",
            )

    @staticmethod
    def _check_origin(headers: Headers) -> None:
        """Check that the request is not from a page of another site."""
        origin = headers.get("origin")
        is_own = origin is None or is_of(origin, headers.get("host", ""))
        if not is_own or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise RequestRefused(
                "pages of other sites may not ask", status=HTTPStatus.FORBIDDEN, hint="Ask without a browser."
            )

    def _is_anybody_let_in(self) -> bool:
        return not self._needs_token

    def _visitor(self, path: str, headers: Headers, scope: Scope) -> Caller | None:
        if self._is_anybody_let_in():
            self._check_rate(ANYBODY.name)
            return ANYBODY
        token = self._door.token(headers)
        if token is None:
            self._check_rate(_stranger(scope))
            if not self._door.is_open(path):
                raise TokenRefused("no user is logged in", status=HTTPStatus.UNAUTHORIZED, hint="Log in with a token.")
            return None
        self._check_rate(token.sha256)
        return Caller(token.name, token.role, token.sha256)

    def _identify(self, headers: Headers) -> Caller | None:
        """Return the caller of a token, or `ANYBODY` if none is needed; `None` for a stranger."""
        if self._is_anybody_let_in():
            return ANYBODY
        kind, _, sent = headers.get("authorization", "").partition(" ")
        token = self._tokens.find(sent.strip()) if kind.lower() == "bearer" else None
        return None if token is None else Caller(token.name, token.role, token.sha256)

    def _caller(self, headers: Headers, scope: Scope) -> Caller:
        caller = self._identify(headers)
        if caller is None:
            self._check_rate(_stranger(scope))
            message = "this token is not known" if "authorization" in headers else "a token is needed"
            raise TokenRefused(
                message,
                status=HTTPStatus.UNAUTHORIZED,
                hint="Send Authorization: Bearer TOKEN; isthmus token create makes one.",
            )
        self._check_rate(caller.identity)
        return caller

    def _check_rate(self, caller: str) -> None:
        wait_s = self._rate.take(caller)
        if wait_s:
            raise RequestRefused(
                "too many requests", status=HTTPStatus.TOO_MANY_REQUESTS, hint="Ask less often.", retry_after_s=wait_s
            )


def _stranger(scope: Scope) -> str:
    """Return an id for a caller without a token: its address, or with IPv6, where every client has
    many, its network.
    """
    host = (scope.get("client") or ("",))[0]
    with contextlib.suppress(ValueError):
        if isinstance(address := ipaddress.ip_address(host), ipaddress.IPv6Address):
            # At [::] clients with IPv4 come as ::ffff:10.0.0.1, all in one network.
            host = str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
    return f"{_STRANGER}{host}"


def _is_here(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    return False


async def _body(headers: Headers, receive: Receive, body_s: float) -> bytes:
    """Read the whole body, if it is small enough and comes soon enough."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(body_s):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > BODY_BYTES_MAX:
                    raise _too_large()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RequestRefused(
            f"the body did not come within {body_s:.0f} s", status=HTTPStatus.REQUEST_TIMEOUT
        ) from None


def _too_large() -> RequestRefused:
    return RequestRefused(f"a body has at most {BODY_BYTES_MAX:,} bytes", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return the app's receive channel: the body that was read already, then the later messages."""
    is_first = True

    async def again() -> Message:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
