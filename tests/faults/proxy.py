"""A TCP proxy that can cut a network: in both directions, in one, or by resetting connections in mid-frame.

It runs in a thread and event loop of its own, so that it goes on whatever the test does.
"""

from __future__ import annotations

import asyncio
import enum
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 << 10
_PULSE_S: Final = 0.05
_RESET: Final = struct.pack("ii", 1, 0)


class Weather(enum.Enum):
    """What the network does."""

    FAIR = enum.auto()
    CUT = enum.auto()
    """Nothing passes. Connections stay as they are, as when a cable is pulled; what waits passes afterwards."""
    DEAF = enum.auto()
    """Requests arrive, their answers are lost. Such connections are of no use and are reset when this ends."""


class Proxy:
    """Listens on `port` and connects to `upstream_port`, both on loopback."""

    def __init__(self, port: int, upstream_port: int) -> None:
        self.port = port
        self.lost_bytes = 0
        self.resets = 0
        self._upstream_port = upstream_port
        self._weather = Weather.FAIR
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{port}")

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, HOST, self.port), self._loop
        ).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def weather(self, weather: Weather) -> Iterator[None]:
        """Let the network be so for a while."""
        self._do(lambda: self._change(weather))
        try:
            yield
        finally:
            self._do(lambda: self._change(Weather.FAIR))

    def reset_one(self, chance: random.Random) -> None:
        """Reset a connection, maybe within a frame: of what is passing at that moment some bytes get through."""
        self._do(lambda: self._tear(chance))

    def _do(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    def _change(self, weather: Weather) -> None:
        if self._weather is Weather.DEAF:
            for link in list(self._links):
                if link.is_torn:
                    link.reset()
        self._weather = weather

    def _tear(self, chance: random.Random) -> None:
        if self._links:
            chance.choice(sorted(self._links, key=id)).tear_after = chance.randrange(2000)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(HOST, self._upstream_port)
            link.writers.append(upstream_writer)
            passing = (
                asyncio.create_task(self._pass(link, reader, upstream_writer, is_answer=False)),
                asyncio.create_task(self._pass(link, upstream_reader, writer, is_answer=True)),
            )
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
        except OSError:
            # The broker is away: so is the connection.
            pass
        finally:
            self._links.discard(link)
            link.reset()

    async def _pass(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            while self._weather is Weather.CUT:
                await asyncio.sleep(_PULSE_S)
            if is_answer and (link.is_torn or self._weather is Weather.DEAF):
                link.is_torn = True
                self.lost_bytes += len(chunk)
                continue
            if link.tear_after is not None:
                link.tear_after -= len(chunk)
                if link.tear_after < 0:
                    writer.write(chunk[: link.tear_after])
                    await writer.drain()
                    self.resets += 1
                    return
            writer.write(chunk)
            await writer.drain()

    async def _close(self) -> None:
        self._server.close()
        for link in list(self._links):
            link.reset()
        await self._server.wait_closed()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Link:
    """One connection and its continuation. `is_torn`: an answer was lost, so no later one may follow."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.tear_after: int | None = None
        self.is_torn = False

    def reset(self) -> None:
        for writer in self.writers:
            sock: socket.socket | None = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
