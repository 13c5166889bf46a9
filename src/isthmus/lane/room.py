"""How much may be read: bytes on their way through an engine, and bytes per second, over all its lanes."""

from __future__ import annotations

import asyncio
import contextlib
import time

from isthmus.model.link import Limits


class Room:
    """Room for what was read and is not yet durable at the target."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._budget_at = 0.0
        self._changed = asyncio.Event()

    def limit(self, limits: Limits) -> None:
        """Go on with other limits. Whoever waits for the former ones does so no more."""
        if limits == self._limits:
            return
        self._limits = limits
        self._budget_at = 0.0
        self._changed.set()
        self._changed = asyncio.Event()
        self._look()

    async def wait(self) -> None:
        """Wait until there is room."""
        await self._is_free.wait()

    async def throttle(self, size_bytes: int) -> None:
        """Keep to `bytes_per_s` after so much was read, over all readers together."""
        if self._limits.bytes_per_s is None or not size_bytes:
            return
        now = time.monotonic()
        self._budget_at = max(self._budget_at, now) + size_bytes / self._limits.bytes_per_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._budget_at - now):
                await self._changed.wait()

    def take(self, size_bytes: int) -> None:
        """So much more is on its way."""
        self._bytes += size_bytes
        self._look()

    def give(self, size_bytes: int) -> None:
        """So much is on its way no more."""
        self._bytes -= size_bytes
        # Once per batch, and hardly ever was there none before.
        if not self._is_free.is_set():
            self._look()

    def _look(self) -> None:
        if self._bytes < self._limits.bytes_in_flight:
            self._is_free.set()
        else:
            self._is_free.clear()
