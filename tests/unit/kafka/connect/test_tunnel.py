"""TLS on a connection that is TLS itself, against Python's own on the other side."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme

from isthmus.kafka.connect.tunnel import wrap_tls
from isthmus.relay.passing import Stream, pass_between

LARGE = 16 << 20
"""More than the sockets between both hold: sending has to wait for the other side."""
OUTER, INNER = trustme.CA(), trustme.CA()


def contexts(authority: trustme.CA, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a client that trusts the authority, and of the server of this name."""
    client, server = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(client)
    authority.issue_cert(name).configure_cert(server)
    return client, server


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a broker of this test does."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


class Servers(threading.Thread):
    """A server with TLS that echoes, and one before it that adds another layer; in an event loop of its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.trusted, self._outer = contexts(OUTER, "localhost")
        self._inner = contexts(INNER, name)[1]
        self.port = 0
        self.listening, self._ended = threading.Event(), asyncio.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    def end(self) -> None:
        """End both."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with await asyncio.start_server(echo, "localhost", 0, ssl=self._inner) as broker:
            port = broker.sockets[0].getsockname()[1]

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                far = Stream(*await asyncio.open_connection("localhost", port))
                await pass_between(Stream(reader, writer), far)

            async with await asyncio.start_server(accept, "localhost", 0, ssl=self._outer) as relay:
                self.port = relay.sockets[0].getsockname()[1]
                self.listening.set()
                await self._ended.wait()
                await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others) if others else None


@contextmanager
def relayed(name: str = "broker.invalid") -> Iterator[ssl.SSLSocket]:
    """A connection with one layer of TLS on it; behind that is a server of this name with TLS of its own."""
    servers = Servers(name)
    servers.start()
    servers.listening.wait()
    try:
        with (
            socket.create_connection(("localhost", servers.port), timeout=30) as plain,
            servers.trusted.wrap_socket(plain, server_hostname="localhost") as stream,
        ):
            yield stream
    finally:
        servers.end()


def test_both_layers_pass_everything() -> None:
    """Whatever the sizes, waiting or not: the same bytes come back, and sending goes on where it stopped."""
    client, _ = contexts(INNER, "broker.invalid")
    sent = bytes(range(256)) * (LARGE // 256)
    with relayed() as outer:
        stream = wrap_tls(outer, client, "broker.invalid")
        stream.sendall(b"small")
        buffer = bytearray(5)
        assert stream.recv_into(memoryview(buffer)) == 5
        assert buffer == b"small"
        stream.setblocking(False)
        received, left = bytearray(), memoryview(sent)
        is_full = False
        # The buffers of all sockets on the way may hold everything.
        while left and not is_full:
            try:
                left = left[stream.send(left) :]
            except ssl.SSLWantWriteError:
                is_full = True
        taken = memoryview(bytearray(1 << 16))
        while len(received) < LARGE:
            with contextlib.suppress(ssl.SSLWantWriteError):
                left = left[stream.send(left) :] if left else left
            with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
                received += taken[: stream.recv_into(taken)]
        assert received == sent


def test_the_inner_certificate_counts() -> None:
    """The broker has to be the one that is meant, by its own certificate: the relay's is none of it."""
    client, _ = contexts(INNER, "broker.invalid")
    with relayed() as outer, pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        wrap_tls(outer, client, "other.invalid")
    stranger, _ = contexts(OUTER, "broker.invalid")
    with relayed() as outer, pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        wrap_tls(outer, stranger, "broker.invalid")


def test_an_end_is_an_end() -> None:
    """Where the outer connection ends nothing more comes, as with any socket."""
    client, _ = contexts(INNER, "broker.invalid")
    with relayed() as outer:
        stream = wrap_tls(outer, client, "broker.invalid")
        socket.socket.shutdown(outer, socket.SHUT_WR)
        assert stream.recv_into(memoryview(bytearray(1))) == 0
