"""Bytes from one connection into another and back, never more in memory than both may hold back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Final

from isthmus.relay.speech import BUFFER_BYTES

_RESET: Final = struct.pack("ii", 1, 0)
_ENDING_S: Final = 5.0
_KEPT_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # Short enough to keep NAT from forgetting the connection, and for us to notice that it has.
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in (
        ("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4),
    ) if hasattr(socket, name)),
)  # fmt: skip
_USER_TIMEOUT_MS: Final = 30_000


def keep_alive(sock: socket.socket) -> None:
    """Send keepalive probes on an idle connection."""
    for option in _KEPT_ALIVE:
        sock.setsockopt(*option)


def have_reset(sock: socket.socket) -> None:
    """Make a close drop all unsent bytes, even those in the kernel."""
    if sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


class Stream:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        # A closed transport has no socket any more.
        self._sock = writer.get_extra_info("socket")

    def prepare(self) -> None:
        """Enable keepalive probes, and keep the buffers small."""
        self.writer.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        keep_alive(self._sock)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)

    def reset(self) -> None:
        """Close it at once; drop all unsent bytes, even those in the kernel."""
        have_reset(self._sock)
        self.writer.transport.abort()

    async def end(self) -> None:
        """Close it when all has been sent, or in a few seconds."""
        self.writer.close()
        try:
            async with asyncio.timeout(_ENDING_S):
                await self.writer.wait_closed()
        except OSError:
            self.reset()


async def pass_between(near: Stream, far: Stream) -> None:
    """Pass bytes both ways until one end closes. An aborted connection is aborted at the other end too: bytes that
    their sender has given up do not arrive later.
    """
    passing = [asyncio.create_task(_pass(near, far)), asyncio.create_task(_pass(far, near))]
    try:
        done, _ = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        if not any(each.exception() for each in done):
            await asyncio.gather(near.end(), far.end())
    finally:
        for each in passing:
            each.cancel()
        near.reset()
        far.reset()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*passing, return_exceptions=True)


async def _pass(source: Stream, target: Stream) -> None:
    while chunk := await source.reader.read(BUFFER_BYTES):
        target.writer.write(chunk)
        await target.writer.drain()
