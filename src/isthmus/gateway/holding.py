"""The answers that leave a connection, in the order of its requests, some of them held until something has come to be.
Pure.

An answer that is held keeps those behind it, whatever they are: forwarded ones and our own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from isthmus.gateway.committing import CommitOwed, GroupSeen, PositionsOwed
from isthmus.gateway.walking import ProduceWalk
from isthmus.wire.frames import Buffer

HELD_MAX: Final = 1_000
"""So many answers of a connection may be held, or wait behind one: from then on nothing more is asked for it."""
HELD_BYTES_MAX: Final = 1 << 20
"""So much may wait behind an answer that is held: from then on the broker is not read."""


Owed = ProduceWalk | CommitOwed | PositionsOwed | GroupSeen
"""What has to be known of a request so that its answer can be held."""


class HeldAnswer:
    """An answer that may have to wait, for what `owed` tells. Its `frame` may be changed until it is ready."""

    __slots__ = ("frame", "is_ready", "owed", "version")

    def __init__(self, frame: bytearray, version: int, owed: Owed) -> None:
        self.frame = frame
        self.version = version
        self.owed = owed
        self.is_ready = False

    def __bytes__(self) -> bytes:
        return bytes(self.frame)


Leaving = Buffer | HeldAnswer


class HoldingQueue:
    """What leaves a connection."""

    __slots__ = ("_waiting", "waiting_bytes")

    def __init__(self) -> None:
        self._waiting: deque[bytes | HeldAnswer] = deque()
        self.waiting_bytes = 0
        """How much waits behind answers that are held, without these."""

    def __len__(self) -> int:
        """How many answers, or pieces of such, are not let through yet."""
        return len(self._waiting)

    def take(self, leaving: Iterable[Leaving]) -> list[Buffer]:
        """What of these may leave now. What may not is copied, and comes out of `ready` when its turn has come."""
        out: list[Buffer] = self.ready()
        for each in leaving:
            if isinstance(each, HeldAnswer):
                if self._waiting or not each.is_ready:
                    self._waiting.append(each)
                else:
                    out.append(each.frame)
            elif self._waiting:
                self._keep(each)
            else:
                out.append(each)
        return out

    def ready(self) -> list[Buffer]:
        """What may leave by now."""
        out: list[Buffer] = []
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, HeldAnswer):
                if not first.is_ready:
                    break
                out.append(first.frame)
            else:
                out.append(first)
                self.waiting_bytes -= len(first)
            self._waiting.popleft()
        return out

    def _keep(self, buffer: Buffer) -> None:
        if len(buffer):
            self._waiting.append(bytes(buffer))
            self.waiting_bytes += len(buffer)
