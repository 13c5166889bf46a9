"""Events for all listeners: bounded in number, and in how many are kept for listeners that reconnect."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from isthmus.errors import RequestRefused
from isthmus.model.text.plain import plain

STREAMS_MAX: Final = 64
_KEPT_MAX: Final = 1000
BEHIND_MAX: Final = 1000
"""A listener that is further behind is disconnected, and reconnects for the events that are kept."""
QUIET_S: Final = 15.0
LOOK_S: Final = 2.0
"""The interval at which the rights of listeners are checked."""
_RETRY_MS: Final = 3000


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to a link; `data` is the content of its event."""

    number: int
    kind: str
    link: str
    data: object

    def encode(self, run: str) -> bytes:
        """Encode the event for the wire."""
        return f"id: {run}.{self.number}\n".encode() + encode_event(self.kind, self.data)


def encode_event(kind: str, data: object) -> bytes:
    """Encode an event without a number of its own, which cannot be requested again."""
    return f"event: {kind}\ndata: {json.dumps(plain(data), default=str)}\n\n".encode()


class Listener:
    """One stream: the events that it has yet to receive, in the loop in which it receives them."""

    def __init__(
        self, link: str | None, behind_max: int, leave: Callable[[Listener], None], caller: str | None = None
    ) -> None:
        self.link, self.caller = link, caller
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Happening | None] = asyncio.Queue(behind_max)

    def tell(self, happened: Happening | None) -> None:
        """Pass an event, from any thread; `None` is the end."""
        if happened is None or self.link in (None, happened.link):
            self._loop.call_soon_threadsafe(self._put, happened)

    def _put(self, happened: Happening | None) -> None:
        if self._queue.full():
            # It ends with what it has: its next one would be out of order. If its client reads nothing at all it hangs
            # until its connection ends, and blocks no other listener.
            self._leave(self)
            self._queue.get_nowait()
            happened = None
        self._queue.put_nowait(happened)

    async def next(self, quiet_s: float) -> Happening | None:
        """Return the next event, `None` at the end.

        :raises TimeoutError: Nothing did for so long.
        """
        async with asyncio.timeout(quiet_s):
            return await self._queue.get()


class Happenings:
    """The last thousand events, and their listeners, `streams_max` at once: each at most `behind_max` events behind,
    and sent a comment after `quiet_s` without any. Whether they still may listen is checked every `look_s`.
    """

    def __init__(
        self,
        *,
        behind_max: int = BEHIND_MAX,
        quiet_s: float = QUIET_S,
        streams_max: int = STREAMS_MAX,
        look_s: float = LOOK_S,
    ) -> None:
        self._behind_max, self._quiet_s, self._streams_max, self._look_s = behind_max, quiet_s, streams_max, look_s
        self._run = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._kept: deque[Happening] = deque(maxlen=_KEPT_MAX)
        # A listener whose caller left before the first event is gone as well.
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._number = 0
        self._is_open = True

    @property
    def is_heard(self) -> bool:
        """Whether there is any listener."""
        return len(self._listeners) > 0

    def publish(self, kind: str, link: str, data: object) -> None:
        """Send an event to all listeners."""
        with self._lock:
            self._number += 1
            happened = Happening(self._number, kind, link, data)
            self._kept.append(happened)
            for each in self._listeners:
                each.tell(happened)

    def listen(self, link: str | None, last: str | None, caller: str | None = None) -> Listener:
        """Open a listener, which first receives the events after the `last` that it had received, as far as they are
        kept. A named `caller` has half of all streams at most.

        :raises RequestRefused: So many listen already.
        """
        with self._lock:
            own = sum(caller is not None and each.caller == caller for each in self._listeners)
            is_full = len(self._listeners) >= self._streams_max or own >= max(1, self._streams_max // 2)
            if is_full or not self._is_open:
                raise RequestRefused(
                    f"{len(self._listeners)} streams of events are open, {own} of them yours",
                    status=HTTPStatus.TOO_MANY_REQUESTS,
                    hint="Close one, or ask /v1/status from time to time.",
                    retry_after_s=30,
                    is_last=True,
                )
            listener = Listener(link, self._behind_max, self._forget, caller)
            run, _, number = (last or "").partition(".")
            if run == self._run and number.isascii() and number.isdigit() and len(number) < len(str(1 << 63)):
                for each in self._kept:
                    if each.number > int(number):
                        listener.tell(each)
            self._listeners.add(listener)
            return listener

    async def stream(
        self, listener: Listener, first: list[bytes], may_listen: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes for one listener, until it leaves, or may listen no more."""
        try:
            yield f"retry: {_RETRY_MS}\n\n".encode()
            for each in first:
                yield each
            told_at = time.monotonic()
            while True:
                quiet_s = told_at + self._quiet_s - time.monotonic()
                try:
                    happened = await listener.next(max(0.0, min(quiet_s, self._look_s)))
                except TimeoutError:
                    if not may_listen():
                        return
                    if quiet_s > self._look_s:
                        continue
                    chunk = b": nothing happened\n\n"
                else:
                    if happened is None or not may_listen():
                        return
                    chunk = happened.encode(self._run)
                yield chunk
                told_at = time.monotonic()
        finally:
            self._forget(listener)

    def _forget(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End all streams; no new one begins any more."""
        with self._lock:
            self._is_open = False
            for each in self._listeners:
                each.tell(None)
