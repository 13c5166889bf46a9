"""The limits of requests at work: so many of each kind and of each caller, and one of all looks at the same thing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isthmus.errors import RequestRefused
from isthmus.web.access.guard import Caller

LOOKS_MAX: Final = 16
CHANGES_MAX: Final = 8
LOOK_S: Final = 120.0
"""The time limit of a look. A change is never interrupted."""
WAIT_S: Final = 60.0
"""The time that a request waits for a place."""
_LOOKING: Final = ("GET", "HEAD")
_AT_HAND: Final = (
    "/v1/events",
    "/v1/openapi.json",
    "/v1/operations",
    "/metrics",
    "/livez",
    "/readyz",
    "/health",
    "/operations",
    "/login",
    "/logout",
    "/static",
)
"""Paths that are answered without asking a cluster, and wait for no place."""
_OF_ONE: Final = "/groups/key"
"""Its answer depends on the caller, so it is looked up for each."""
_GROUP_KEY: Final = "group-key"
ToldAnswer = list[Message]


class WorkRoom:
    """A limited number of places for requests at work, half of them for one caller at most. The first comes first,
    unless it has its share.
    """

    def __init__(self, places: int, *, wait_s: float = WAIT_S) -> None:
        self._free = places
        self._share = max(1, places // 2)
        self._wait_s = wait_s
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Hold a place for the length of the block.

        :raises RequestRefused: None was free in time.
        """
        await self._enter(caller)
        try:
            yield
        finally:
            self._leave(caller)

    async def _enter(self, caller: str) -> None:
        granted = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, granted))
        self._grant()
        try:
            async with asyncio.timeout(self._wait_s):
                await granted
        except TimeoutError:
            self._give_up(caller, granted)
            raise RequestRefused(
                f"others are at work, and no place was free for {self._wait_s:.0f} s",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                hint="Ask again; fewer requests at a time are answered sooner.",
                retry_after_s=5,
            ) from None
        except asyncio.CancelledError:
            self._give_up(caller, granted)
            raise

    def _give_up(self, caller: str, granted: asyncio.Future[None]) -> None:
        if granted.done() and not granted.cancelled():
            self._leave(caller)
        else:
            self._waiting = deque(each for each in self._waiting if each[1] is not granted)

    def _leave(self, caller: str) -> None:
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        self._grant()

    def _grant(self) -> None:
        for each in [*self._waiting]:
            caller, granted = each
            if not self._free:
                return
            # A request that gave up at this moment is not gone from the queue yet.
            if not granted.done() and self._held[caller] < self._share:
                self._waiting.remove(each)
                self._free -= 1
                self._held[caller] += 1
                granted.set_result(None)


@dataclass(slots=True, eq=False)
class _Look:
    """A look that callers wait for; once it has begun no caller joins it, as things may have changed since."""

    callers: int = 0
    task: asyncio.Task[ToldAnswer] | None = None


@dataclass(slots=True, eq=False)
class _Looks:
    """The looks at one thing: the one at work, and the next one, for callers that come meanwhile."""

    at_work: asyncio.Lock = field(default_factory=asyncio.Lock)
    next: _Look | None = None
    callers: int = 0

    def close(self, one: _Look) -> None:
        """Let no other caller join this look."""
        if self.next is one:
            self.next = None


class SharedLooks:
    """Run looks at the same thing one after the other: callers that come while one runs share the next one. So each
    sees the state after its request had come, and a crowd costs two looks.
    """

    def __init__(self) -> None:
        self._of: dict[Any, _Looks] = {}

    async def join_look(self, key: Any, look: Callable[[Callable[[], None]], Awaitable[ToldAnswer]]) -> ToldAnswer:
        """Return the answer of a look at `key`, which calls its argument when it begins."""
        looks = self._of.setdefault(key, _Looks())
        looks.callers += 1
        try:
            one = looks.next
            if one is None:
                one = looks.next = _Look()
                one.task = asyncio.create_task(self._run_look(looks, one, look))
            return await _join(looks, one)
        finally:
            looks.callers -= 1
            if not looks.callers:
                self._of.pop(key, None)

    @staticmethod
    async def _run_look(
        looks: _Looks, one: _Look, look: Callable[[Callable[[], None]], Awaitable[ToldAnswer]]
    ) -> ToldAnswer:
        try:
            async with looks.at_work:
                return await look(lambda: looks.close(one))
        finally:
            looks.close(one)


async def _join(looks: _Looks, one: _Look) -> ToldAnswer:
    assert one.task is not None  # noqa: S101 - it has one from the moment it can be found
    one.callers += 1
    try:
        return await asyncio.shield(one.task)
    finally:
        one.callers -= 1
        if not one.callers:
            looks.close(one)
            one.task.cancel()


class Rooms:
    """Pass requests on: looks and changes have places of their own, so that no look keeps a change waiting; a request
    that needs no cluster waits for no other. An answer is sent when the place is free again: a slow reader keeps no
    other request waiting.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        looks: int = LOOKS_MAX,
        changes: int = CHANGES_MAX,
        look_s: float = LOOK_S,
    ) -> None:
        self._app = app
        self._looks, self._changes = WorkRoom(looks), WorkRoom(changes)
        self._look_s = look_s
        self._shared = SharedLooks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on.

        :raises RequestRefused: No place was free in time, or the look had no result in time.
        """
        if scope["type"] != "http" or is_at_hand(scope["path"]):
            await self._app(scope, receive, send)
            return
        for message in await self._answer(scope, receive):
            await send(message)

    async def _answer(self, scope: Scope, receive: Receive) -> ToldAnswer:
        caller: Caller | None = scope["state"]["caller"]
        who = "" if caller is None else caller.identity
        if scope["method"] not in _LOOKING:
            async with self._changes.place(who):
                return await self._collect_answer(scope, receive)

        async def look(begin: Callable[[], None]) -> ToldAnswer:
            async with self._looks.place(who):
                begin()
                return await self._run_look(scope, receive)

        path, key = scope["path"], Headers(scope=scope).get(_GROUP_KEY)
        if caller is None or not path.startswith("/v1/") or path.endswith(_OF_ONE):
            return await look(lambda: None)
        return await self._shared.join_look((scope["method"], path, scope["query_string"], key, caller.role), look)

    async def _run_look(self, scope: Scope, receive: Receive) -> ToldAnswer:
        try:
            async with asyncio.timeout(self._look_s) as term:
                return await self._collect_answer(scope, receive)
        except TimeoutError:
            if not term.expired():
                raise
            raise RequestRefused(
                f"nothing was found out in {self._look_s:.0f} s",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                hint="A cluster may hang: GET /v1/status names it.",
                retry_after_s=5,
            ) from None

    async def _collect_answer(self, scope: Scope, receive: Receive) -> ToldAnswer:
        answer: ToldAnswer = []

        async def keep(message: Message) -> None:
            answer.append(message)

        await self._app(scope, receive, keep)
        return answer


def is_at_hand(path: str) -> bool:
    """Return whether a path is answered without asking a cluster."""
    return any(path == each or path.startswith((f"{each}/", f"{each}:")) for each in _AT_HAND)
