"""Connections to clusters that consecutive requests share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from isthmus.fabric.answers import ClientSession

KEPT_S: Final = 60.0
"""The time that its connections are kept after the last request, for the next."""
OLD_S: Final = 600.0
"""The age at which a session is left: what it believes of a cluster (its id, its brokers) is not kept for ever."""


class Lending:
    """One session for all requests of an event loop, as long as there are any: a ledger that was read for one of them
    is followed for the next, and a client does not connect again.
    """

    def __init__(self, kept_s: float = KEPT_S, old_s: float = OLD_S) -> None:
        self._kept_s, self._old_s = kept_s, old_s
        self._session: ClientSession | None = None
        self._begun = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._users = 0
        self._ending: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[ClientSession]:
        """Yield the session; the caller uses it in the block and does not close it."""
        loop = asyncio.get_running_loop()
        if not self._users and self._loop is loop and loop.time() - self._begun > self._old_s:
            self._let_go()
        if self._session is None or self._loop is not loop:
            self._session, self._loop, self._users, self._begun = ClientSession(), loop, 0, loop.time()
        session = self._session
        self._users += 1
        if self._ending is not None:
            self._ending.cancel()
        try:
            yield session
        finally:
            if session is self._session:
                self._users -= 1
                if not self._users:
                    self._ending = loop.call_later(self._kept_s, self._let_go)

    async def aclose(self) -> None:
        """Leave all clusters."""
        if self._ending is not None:
            self._ending.cancel()
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.aclose()
        if self._closing is not None:
            await self._closing

    def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._closing = asyncio.get_running_loop().create_task(session.aclose())
