"""A SOCKS5 and an HTTP proxy as small as they can be, forwarders that look at what passes, and brokers behind them."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from isthmus.local import LocalCluster
from isthmus.local.ports import choose_ports, free_ports
from testing.brokers.proxy import HOST, Link, Proxy, cluster_ports
from testing.patience import UNFENCED

ADVERTISED_PORT = 9092
BROKERS = 2


class Recorder(Proxy):
    """Forwards a port, counts the bytes, and reads in the heads of requests who asks, and what (Kafka's API keys)."""

    def __init__(self, port: int, upstream_port: int) -> None:
        super().__init__(port, upstream_port)
        self.bytes = 0
        self.client_ids: set[str | None] = set()
        self.api_keys: set[int] = set()
        self._pending: dict[int, bytearray] = {}

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        self.bytes += len(chunk)
        if not is_answer:
            self._read(self._pending.setdefault(id(link), bytearray()), chunk)
        return len(chunk)

    def left(self, link: Link) -> None:
        self._pending.pop(id(link), None)

    def _read(self, pending: bytearray, chunk: bytes) -> None:
        pending += chunk
        while len(pending) >= 4 and len(pending) >= 4 + (size := struct.unpack_from(">i", pending)[0]):
            self.api_keys.add(struct.unpack_from(">h", pending, 4)[0])
            (length,) = struct.unpack_from(">h", pending, 12)
            self.client_ids.add(None if length < 0 else pending[14 : 14 + length].decode())
            del pending[: 4 + size]


class Gateway(Proxy):
    """A proxy with names of its own: it alone knows where `names` lead, and counts the connections it has made."""

    def __init__(self, names: Mapping[str, int], *, login: tuple[str, str] | None = None) -> None:
        (port,) = free_ports(1)
        super().__init__(port, 0)
        self.connected: list[str] = []
        self._names = names
        self._login = login

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


class SocksGateway(Gateway):
    """SOCKS5."""

    async def destination(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 0 if self._login is None else 2
        writer.write(bytes((5, wanted if wanted in methods else 0xFF)))
        if wanted == 2:
            await reader.readexactly(1)
            given = [(await reader.readexactly((await reader.readexactly(1))[0])).decode() for _ in range(2)]
            writer.write(bytes((1, tuple(given) != self._login)))
            if tuple(given) != self._login:
                await self._refuse(writer)
        _, _, _, kind = await reader.readexactly(4)
        # An address instead of a name would have been looked up by the client.
        name = (await reader.readexactly((await reader.readexactly(1))[0])).decode() if kind == 3 else ""
        port = struct.unpack(">H", await reader.readexactly(2))[0]
        found = self._names.get(f"{name}:{port}")
        writer.write(bytes((5, 0 if found else 2, 0, 1)) + bytes(6))
        if not found:
            await self._refuse(writer)
        self.connected.append(f"{name}:{port}")
        return HOST, found or 0

    async def _refuse(self, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        writer.close()
        raise ConnectionRefusedError


class ConnectGateway(Gateway):
    """HTTP CONNECT."""

    async def destination(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, name, _ = head[0].split(" ")
        login = "" if self._login is None else base64.b64encode(":".join(self._login).encode()).decode()
        if login and f"Proxy-Authorization: Basic {login}" not in head:
            await self._refuse(writer, "407 Proxy Authentication Required")
        if method != "CONNECT" or name not in self._names:
            await self._refuse(writer, "403 Forbidden")
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 gateway\r\n\r\n")
        self.connected.append(name)
        return HOST, self._names[name]

    async def _refuse(self, writer: asyncio.StreamWriter, status: str) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        raise ConnectionRefusedError


@dataclass(slots=True)
class Hidden:
    """A cluster whose brokers have a listener for links, with names that nobody knows, and one for clients.

    `links` are the forwarders to the first, by advertised name; all clients come by way of `clients`.
    """

    cluster: LocalCluster
    links: Mapping[str, Recorder]
    clients: tuple[Recorder, ...]
    ports: Mapping[str, int]

    def forget(self) -> None:
        """What has passed so far counts no more."""
        for forwarder in (*self.links.values(), *self.clients):
            forwarder.bytes = 0
            forwarder.client_ids.clear()


@contextmanager
def hidden_cluster(name: str) -> Iterator[Hidden]:
    """Two brokers that advertise `broker-1.hidden.invalid:9092` and so on to links."""
    base_port, others = cluster_ports(BROKERS, 4 * BROKERS)
    ports = choose_ports(BROKERS, base_port, secure=False, mutual_tls=False)
    links, clients, at_links, at_clients = (others[i * BROKERS : (i + 1) * BROKERS] for i in range(4))
    names = [f"broker-{number + 1}.hidden.invalid:{ADVERTISED_PORT}" for number in range(BROKERS)]
    own = [
        {
            "PLAINTEXT": f"{HOST}:{ports[number].plaintext}",
            "LINKS": f"{HOST}:{links[number]}",
            "CLIENTS": f"{HOST}:{clients[number]}",
            "CONTROLLER": f"{HOST}:{ports[number].controller}",
        }
        for number in range(BROKERS)
    ]
    node_properties = [
        {
            "listeners": _written(listeners),
            "advertised.listeners": _written(
                {**listeners, "LINKS": names[number], "CLIENTS": f"{HOST}:{at_clients[number]}"}
            ),
            "listener.security.protocol.map": ",".join(f"{listener}:PLAINTEXT" for listener in listeners),
        }
        for number, listeners in enumerate(own)
    ]
    cluster = LocalCluster.start(
        name,
        brokers=BROKERS,
        base_port=base_port,
        heap_mb=256,
        properties=UNFENCED,
        node_properties=node_properties,
    )
    forwarders = [Recorder(*pair) for pair in zip((*at_links, *at_clients), (*links, *clients), strict=True)]
    with cluster, forwarders[0], forwarders[1], forwarders[2], forwarders[3]:
        yield Hidden(
            cluster,
            dict(zip(names, forwarders[:BROKERS], strict=True)),
            tuple(forwarders[BROKERS:]),
            dict(zip(names, links, strict=True)),
        )


def _written(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{listener}://{at}" for listener, at in listeners.items())
