"""Ends connections that ask nothing for too long, or whose client does not read the answer."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX: Final = 512


def patient(patience_s: float, connections_max: int = CONNECTIONS_MAX) -> type[H11Protocol]:
    """Return the protocol of a server's connections. Each connection is examined every `patience_s`, and ended if it
    has not moved since the last look: uvicorn itself waits for ever for the rest of a request, and for a client that
    does not read its answer, so that a few hundred such connections would block all other clients. If there are more
    than `connections_max`, the one that has been idle longest is ended: a new client is always admitted.
    """

    class Patient(H11Protocol):
        _next_look: TimerHandle | None = None
        _was_waiting_after: RequestResponseCycle | object | None = object()
        _was_unread: int | None = None
        _idle_at: float = 0.0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._idle_at = self.loop.time()
            self._next_look = self.loop.call_later(patience_s, self._look)
            if len(self.connections) > connections_max:
                idle = [each for each in self.connections if isinstance(each, Patient) and each is not self]
                idle = [each for each in idle if each.is_idle]
                if idle:
                    min(idle, key=lambda each: each._idle_at).transport.abort()

        @property
        def is_idle(self) -> bool:
            """Whether no request waits for its answer."""
            cycle: RequestResponseCycle | None = self.cycle
            return cycle is None or cycle.response_complete

        def on_response_complete(self) -> None:
            self._idle_at = self.loop.time()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._next_look is not None:
                self._next_look.cancel()
            super().connection_lost(exc)

        def _look(self) -> None:
            cycle: RequestResponseCycle | None = self.cycle
            is_waiting = self.is_idle
            unread = self.transport.get_write_buffer_size() if self.flow.write_paused else None
            if (is_waiting and cycle is self._was_waiting_after) or (unread and unread == self._was_unread):
                # A client that reads nothing would not let it close.
                self.transport.abort()
                return
            self._was_waiting_after = cycle if is_waiting else object()
            self._was_unread = unread
            self._next_look = self.loop.call_later(patience_s, self._look)

    return Patient
