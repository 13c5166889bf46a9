"""A TCP proxy that is a network: a long one, or one that is cut in both directions, in one, or in mid-frame.

It runs in a thread and event loop of its own, so that it goes on whatever the test does.
"""

from __future__ import annotations

import asyncio
import enum
import random
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self

from isthmus.local import LocalCluster
from isthmus.local.ports import choose_ports, free_ports, is_free

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 << 10
_PULSE_S: Final = 0.05
_RESET: Final = struct.pack("ii", 1, 0)
_NONE: Final[Mapping[str, str]] = {}


class Weather(enum.Enum):
    """What the network does."""

    FAIR = enum.auto()
    CUT = enum.auto()
    """Nothing passes. Connections stay as they are, as when a cable is pulled; what waits passes afterwards."""
    DEAF = enum.auto()
    """Requests arrive, their answers are lost. Such connections are of no use and are reset when this ends."""


class Proxy:
    """Listens on `port` and connects to `upstream_port`, both on loopback; every byte is `delay_s` on its way."""

    def __init__(self, port: int, upstream_port: int, *, delay_s: float = 0.0) -> None:
        self.port = port
        self._delay_s = delay_s
        self.asked_bytes = 0
        self.answered_bytes = 0
        self.lost_bytes = 0
        self.resets = 0
        self._upstream_port = upstream_port
        self._weather = Weather.FAIR
        self._links: set[Link] = set()
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
        link = Link(writer)
        self._links.add(link)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*await self.destination(reader, writer))
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
            self.left(link)
            link.reset()

    async def destination(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        """Where a connection goes on to. An `OSError` ends it."""
        return HOST, self._upstream_port

    def delay(self) -> float:
        """How long (s) what arrives now is on its way."""
        return self._delay_s

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        """How many bytes of what arrived may go on. With fewer than all of them the connection is reset."""
        if link.tear_after is None:
            return len(chunk)
        link.tear_after -= len(chunk)
        return len(chunk) if link.tear_after >= 0 else max(len(chunk) + link.tear_after, 0)

    def left(self, link: Link) -> None:
        """A connection is over."""

    async def _pass(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        async for chunk in _later(reader, self.delay):
            while self._weather is Weather.CUT:
                await asyncio.sleep(_PULSE_S)
            if is_answer and (link.is_torn or self._weather is Weather.DEAF):
                link.is_torn = True
                self.lost_bytes += len(chunk)
                continue
            admitted = await self.admitted(link, chunk, is_answer=is_answer)
            writer.write(chunk[:admitted])
            await writer.drain()
            if is_answer:
                self.answered_bytes += admitted
            else:
                self.asked_bytes += admitted
            if admitted < len(chunk):
                self.resets += 1
                return

    async def _close(self) -> None:
        self._server.close()
        for link in list(self._links):
            link.reset()
        await self._server.wait_closed()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _later(reader: asyncio.StreamReader, delay: Callable[[], float]) -> AsyncIterator[bytes]:
    """What is read, each part so much later."""
    loop = asyncio.get_running_loop()
    coming: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def take() -> None:
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                coming.put_nowait((loop.time() + delay(), chunk))
        finally:
            coming.put_nowait((0.0, b""))

    taking = asyncio.create_task(take())
    try:
        while (arrival := await coming.get())[1]:
            due, chunk = arrival
            await asyncio.sleep(max(due - loop.time(), 0))
            yield chunk
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


@contextmanager
def behind_proxy(
    name: str,
    *,
    delay_s: float = 0.0,
    heap_mb: int = 256,
    fast_start: bool = True,
    properties: Mapping[str, str] = _NONE,
) -> Iterator[tuple[LocalCluster, Proxy]]:
    """A cluster of one broker with a second listener, which is advertised as the proxy's port."""
    cluster, port, proxied = start_proxied(name, heap_mb=heap_mb, fast_start=fast_start, properties=properties)
    with cluster, Proxy(port, proxied, delay_s=delay_s) as proxy:
        yield cluster, proxy


def start_proxied(
    name: str, *, heap_mb: int = 256, fast_start: bool = True, properties: Mapping[str, str] = _NONE
) -> tuple[LocalCluster, int, int]:
    """Such a cluster, the port that it advertises, on which nothing listens yet, and the one that this leads to."""
    base_port, (proxied, port) = cluster_ports(1, 2)
    (ports,) = choose_ports(1, base_port, secure=False, mutual_tls=False)
    listeners = {"PLAINTEXT": ports.plaintext, "PROXIED": proxied, "CONTROLLER": ports.controller}

    def written(**changed: int) -> str:
        return ",".join(f"{listener}://{HOST}:{at}" for listener, at in {**listeners, **changed}.items())

    cluster = LocalCluster.start(
        name,
        brokers=1,
        base_port=base_port,
        heap_mb=heap_mb,
        fast_start=fast_start,
        properties={
            **properties,
            "listeners": written(),
            "advertised.listeners": written(PROXIED=port),
            "listener.security.protocol.map": ",".join(f"{listener}:PLAINTEXT" for listener in listeners),
        },
    )
    return cluster, port, proxied


def cluster_ports(brokers: int, others: int = 0, *, secure: bool = False) -> tuple[int, list[int]]:
    """A base port for a cluster of so many brokers, of which all ports are free, and so many others that are free."""
    while True:
        base_port, *more = free_ports(1 + others)
        nodes = choose_ports(brokers, base_port, secure, mutual_tls=False)
        own = {port for node in nodes for port in node.all}
        if all(map(is_free, own)) and own.isdisjoint(more):
            return base_port, more


class Link:
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
