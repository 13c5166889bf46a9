"""Log in for a client on a connection to a broker, before the connection is handed over."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

from isthmus.kafka.connect.frames import decode_response, encode_request
from isthmus.kafka.connect.login import LoggedIn, advance, login_steps
from isthmus.model.cluster import Cluster

_SIZE: Final = struct.Struct(">i")
_ANSWER_BYTES_MAX: Final = 1 << 20

Aside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread."""


class Entrance(asyncio.Protocol):
    """Sends one request after the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._changed = asyncio.Event()
        self._lost: Exception | None = None
        self._correlation = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of the new connection."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in received bytes."""
        self._came += data
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is lost."""
        self._lost = exc or ConnectionResetError("closed by the broker")
        self._changed.set()

    async def log_in(self, cluster: Cluster, host: str, where: str, aside: Aside) -> LoggedIn:
        """Log in with the credentials of the cluster.

        :raises OSError: The connection broke, or what answers is no broker.
        :raises AuthenticationFailed: The broker refuses it.
        :raises ConfigError: The mechanism lacks what it needs.
        """
        steps = login_steps(cluster, host, where)
        answer = None
        while not isinstance(step := await aside(partial(advance, steps, answer)), LoggedIn):
            answer = await self._ask(*step, client_id=cluster.client_id)
        return step

    async def _ask(self, request: Any, version: int, *, client_id: str) -> Any:
        if self.transport is None:
            raise ConnectionResetError("not connected")
        self._correlation += 1
        self.transport.write(encode_request(request, version, self._correlation, client_id))
        (size,) = _SIZE.unpack(await self._read(_SIZE.size))
        if not 0 < size <= _ANSWER_BYTES_MAX:
            raise ConnectionResetError(f"an answer of {size} bytes cannot be")
        payload = await self._read(size)
        try:
            return decode_response(request, version, memoryview(payload), self._correlation)
        except Exception as error:
            raise ConnectionResetError(f"the answer cannot be read: {error}") from error

    async def _read(self, size: int) -> bytes:
        while len(self._came) < size:
            if self._lost is not None:
                raise self._lost
            self._changed.clear()
            await self._changed.wait()
        found = bytes(self._came[:size])
        del self._came[:size]
        return found
