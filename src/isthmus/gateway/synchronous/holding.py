"""The queue of answers of a connection, in the order of its requests, of which some are held until they are ready.
Pure.

A held answer also holds all answers behind it: forwarded ones and our own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from isthmus.gateway.frames.committing import CommitOwed, GroupSeen, PositionsOwed
from isthmus.gateway.frames.walking import ProduceWalk
from isthmus.kafka.connect.frames import Buffer

HELD_MAX: Final = 1_000
"""The maximum of answers of a connection that are held, or wait behind one: then its client is not read."""
HELD_BYTES_MAX: Final = 1 << 20
"""The maximum of bytes that wait behind a held answer: then the broker is not read."""


Owed = ProduceWalk | CommitOwed | PositionsOwed | GroupSeen
"""The facts about a request that are needed to hold its answer."""


class HeldAnswer:
    """An answer that may have to wait, for the parts in `owed`. Its `frame` may be changed until it is ready."""

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
    """The queue of answers that leave a connection."""

    __slots__ = ("_waiting", "waiting_bytes")

    def __init__(self) -> None:
        self._waiting: deque[bytes | HeldAnswer] = deque()
        self.waiting_bytes = 0
        """The bytes that wait behind held answers, without those of held answers."""

    def __len__(self) -> int:
        """The number of answers, or pieces of answers, that wait."""
        return len(self._waiting)

    def take(self, leaving: Iterable[Leaving]) -> list[Buffer]:
        """Return those that may leave now. The others are copied, and returned by `ready` in their turn."""
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
        """Return the queued buffers that may leave by now."""
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
