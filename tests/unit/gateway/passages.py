"""Passages of a gateway before brokers that tests play."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from isthmus.gateway.bounds import DEFAULTS, GatewayBounds
from isthmus.gateway.ports import BrokerPorts
from isthmus.gateway.server import Gateway
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster, Proxy, Security

HOST = "127.0.0.1"
HEARTBEAT = 12
LARGE = 1 << 20
TERM_S = 60.0


def request(correlation: int, size: int = 2, *, key: int = HEARTBEAT, version: int = 4) -> bytes:
    """The frame of a request that passes, with so many bytes behind its header."""
    return struct.pack(">ihhih", 10 + size, key, version, correlation, -1) + bytes(size)


@dataclass(slots=True)
class Broker:
    """A server that answers each request by so many bytes, as long as it is let."""

    answer_bytes: int = 4
    asked_bytes: int = 0
    lets: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                asked = await reader.readexactly(size)
                self.asked_bytes += 4 + size
                await self.lets.wait()
                if asked[:2] != bytes(2):
                    writer.write(struct.pack(">i", self.answer_bytes) + asked[4:8] + bytes(self.answer_bytes - 4))
                    await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.ended.set()
            writer.close()


@dataclass(slots=True)
class Place:
    """A gateway in front of one broker, and where it listens."""

    gateway: Gateway
    broker: Broker
    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, **settings: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client's connection."""
        reader, writer = await asyncio.open_connection(HOST, self.port, **settings)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def place(
    bounds: GatewayBounds = DEFAULTS,
    *,
    broker: Broker | None = None,
    context: ssl.SSLContext | None = None,
    security: Security | None = None,
    proxy: Proxy | None = None,
) -> AsyncIterator[Place]:
    """A gateway at a free port."""
    broker = broker or Broker()
    broker.lets.set()
    behind = await asyncio.start_server(broker.serve, HOST, 0)
    cluster = Cluster(alias="east", bootstrap_servers=(f"{HOST}:1",), security=security or Security(), proxy=proxy)
    async with Client(cluster) as client:
        gateway = Gateway(
            client, BrokerPorts(host="gateway.example", port=19092, first_node=1, size=1), bounds, context
        )
        gateway.know({1: (HOST, behind.sockets[0].getsockname()[1])})
        front = await asyncio.get_running_loop().create_server(partial(gateway.accept, 0), HOST, 0)
        watching = asyncio.create_task(gateway.watch())
        here = Place(gateway, broker, front.sockets[0].getsockname()[1])
        try:
            yield here
        finally:
            for writer in here.writers:
                if not writer.transport.is_closing():
                    writer.transport.abort()
            watching.cancel()
            front.close()
            behind.close()
            gateway.close()
            await until(lambda: not gateway.passages)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(TERM_S):
        while not condition():
            await asyncio.sleep(0.005)


async def is_ended(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side has ended a connection."""
    async with asyncio.timeout(TERM_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(LARGE):
                pass
    return True


async def answered(reader: asyncio.StreamReader) -> int:
    """The correlation id of the next answer."""
    async with asyncio.timeout(TERM_S):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return int.from_bytes((await reader.readexactly(size))[:4], "big")


def run(story: Coroutine[Any, Any, None]) -> None:
    """Have it happen."""
    asyncio.run(story)


async def found(here: Place) -> tuple[Any, ...]:
    """The connections, when there is one."""
    await until(lambda: here.gateway.passages)
    return tuple(here.gateway.passages)
