"""How much may be read: bytes on their way through an engine, and bytes per second, over all its lanes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from isthmus.model.link import Limits

LANE_BYTES_MAX: Final = 8 << 20
FLOOR_BYTES: Final = 256 << 10
_FLOOR_SHARE: Final = 8


class Room:
    """Room for what was read and is not yet durable at the target.

    A lane may hold as much as is free, so that none can take all of it, however many come to a standstill; and a floor
    that is its own. What lanes hold exceeds the limit by their floors, and by what is on its way to them.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
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

    @property
    def floor_bytes(self) -> int:
        """What a lane that flows may hold whatever others do."""
        return max(min(FLOOR_BYTES, self._limits.bytes_in_flight // _FLOOR_SHARE), 1)

    @property
    def share_bytes(self) -> int:
        """What a lane that flows may hold now."""
        return max(min(LANE_BYTES_MAX, self._limits.bytes_in_flight - self._bytes), self.floor_bytes)

    @property
    def is_tight(self) -> bool:
        """Whether lanes that do not flow have to make room for those that do."""
        return self._bytes >= self._limits.bytes_in_flight // 2

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

    def give(self, size_bytes: int) -> None:
        """So much is on its way no more."""
        self._bytes -= size_bytes
