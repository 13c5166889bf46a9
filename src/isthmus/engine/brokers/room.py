"""Limits reading over all lanes of an engine: bytes that are read and not yet durable, and bytes per second."""

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
    """Room for records that were read and are not yet durable at the target.

    A lane may hold as much as is free, so that stuck lanes cannot take all of it; and always its own floor. All lanes
    together may exceed the limit by their floors, and by the answers that are on their way.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self._budget_at = 0.0
        self._changed = asyncio.Event()

    def limit(self, limits: Limits) -> None:
        """Replace the limits. Waits for the former ones end at once."""
        if limits == self._limits:
            return
        self._limits = limits
        self._budget_at = 0.0
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def floor_bytes(self) -> int:
        """How much a lane that advances may always hold."""
        return max(min(FLOOR_BYTES, self._limits.bytes_in_flight // _FLOOR_SHARE), 1)

    @property
    def share_bytes(self) -> int:
        """How much a lane that advances may hold now."""
        return max(min(LANE_BYTES_MAX, self._limits.bytes_in_flight - self._bytes), self.floor_bytes)

    @property
    def is_tight(self) -> bool:
        """Whether lanes that do not advance have to release room for those that do."""
        return self._bytes >= self._limits.bytes_in_flight // 2

    async def throttle(self, size_bytes: int) -> None:
        """Wait as long as `bytes_per_s` requires after reading `size_bytes`, over all readers together."""
        if self._limits.bytes_per_s is None or not size_bytes:
            return
        now = time.monotonic()
        self._budget_at = max(self._budget_at, now) + size_bytes / self._limits.bytes_per_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._budget_at - now):
                await self._changed.wait()

    def take(self, size_bytes: int) -> None:
        """Take room for bytes that were read."""
        self._bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Release room of bytes that are durable or dropped."""
        self._bytes -= size_bytes
