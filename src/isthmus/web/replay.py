"""Repeated requests with the same Idempotency-Key get the first answer, and are done once."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.types import Message, Send

from isthmus.errors import RequestRefused

_KEPT_MAX: Final = 1000
_KEPT_S: Final = 86_400.0
_KEY_MAX: Final = 255
_ANSWER_BYTES_MAX: Final = 1 << 20
_ANSWERS_BYTES_MAX: Final = 8 << 20
"""The size of all answers to one caller: of the oldest only the status is kept, for the newest."""
_OF_BODIES: Final = (b"content-length", b"content-type")


@dataclass(slots=True)
class _Answered:
    """A request that was made: its digest, and its answer once there is one, or the begin of it."""

    digest: bytes
    at: float
    messages: list[Message] = field(default_factory=list)
    size: int = 0
    is_short: bool = False
    is_done: bool = False

    def keep(self, message: Message) -> None:
        """Keep a part of the answer, as long as the whole is not too large."""
        if self.is_short:
            return
        self.size += len(message.get("body", b""))
        self.messages.append(message)
        if self.size > _ANSWER_BYTES_MAX:
            self.shorten()

    def shorten(self) -> None:
        """Keep only the status and headers of the answer: a caller that asks again learns that it was done."""
        start, *_ = self.messages
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in _OF_BODIES]
        self.messages = [
            {**start, "headers": [*headers, (b"content-length", b"0")]},
            {"type": "http.response.body", "body": b""},
        ]
        self.size = 0
        self.is_short = True

    @property
    def is_over(self) -> bool:
        """Whether it was answered so long ago that it is not kept."""
        return self.is_done and time.monotonic() - self.at > _KEPT_S


class RepeatedRequests:
    """The answers of the last day to requests that had a key, of each caller 1,000 at most: no caller displaces those
    of others. Of answers beyond 1 MiB each or 8 MiB in all, the status and the headers. They do not outlive the server.
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, _Answered]] = {}

    @contextlib.asynccontextmanager
    async def once(self, caller: str, key: str, asked: str, body: bytes, send: Send) -> AsyncIterator[Send | None]:
        """Yield a sender that records the answer; `None` if the answer was sent already.

        :raises RequestRefused: The key was used for something else, or its request is still being worked on.
        """
        if not key or len(key) > _KEY_MAX:
            raise RequestRefused(f"Idempotency-Key has 1 to {_KEY_MAX} characters", status=HTTPStatus.BAD_REQUEST)
        digest = hashlib.sha256(asked.encode() + b"\n" + body).digest()
        known = self._find(caller, key)
        if known is not None:
            self._check(known, digest)
            for message in known.messages:
                await send(message)
            yield None
            return
        made = self._begin(caller, key, digest)

        async def remembering(message: Message) -> None:
            made.keep(message)
            await send(message)

        try:
            yield remembering
        finally:
            status = made.messages[0].get("status", 500) if made.messages else 500
            # A request that failed may be tried again with the same key.
            if status >= HTTPStatus.BAD_REQUEST:
                self._kept[caller].pop(key, None)
            made.is_done = True
            self._shorten_oldest(self._kept.get(caller, {}))

    def _find(self, caller: str, key: str) -> _Answered | None:
        found = self._kept.get(caller, {}).get(key)
        return None if found is None or found.is_over else found

    def _begin(self, caller: str, key: str, digest: bytes) -> _Answered:
        # Drop callers of which no answer is kept any more: tokens come and go.
        alive = {name: kept for name, kept in self._kept.items() if not all(each.is_over for each in kept.values())}
        kept = alive.setdefault(caller, {})
        kept.pop(key, None)
        # A request that is still running is never forgotten: it would be done twice.
        ended = [name for name, each in kept.items() if each.is_done]
        for name in ended[: max(0, len(kept) - _KEPT_MAX + 1)]:
            del kept[name]
        self._kept = alive
        made = kept[key] = _Answered(digest, time.monotonic())
        return made

    @staticmethod
    def _shorten_oldest(kept: dict[str, _Answered]) -> None:
        size = sum(each.size for each in kept.values())
        for answered in [each for each in kept.values() if each.is_done]:
            if size <= _ANSWERS_BYTES_MAX:
                return
            size -= answered.size
            answered.shorten()

    def _check(self, known: _Answered, digest: bytes) -> None:
        if known.digest != digest:
            raise RequestRefused(
                "this Idempotency-Key was used for another request",
                status=HTTPStatus.UNPROCESSABLE_ENTITY,
                hint="Use a new key for each request, and the same one to send it again.",
            )
        if not known.is_done:
            raise RequestRefused(
                "the request with this Idempotency-Key is still being worked on",
                status=HTTPStatus.CONFLICT,
                hint="Ask again in a moment.",
                retry_after_s=1,
            )
