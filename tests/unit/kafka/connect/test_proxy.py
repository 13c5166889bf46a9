"""The handshakes with proxies that answer in ways of their own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from isthmus.errors import AuthenticationFailed, Unreachable
from isthmus.kafka.connect.reach import reach
from isthmus.model.cluster import Cluster, Proxy, ProxyKind, Secret

HOST: Final = "127.0.0.1"
BROKER: Final = b"from the broker"
PASSWORD: Final = "pässwort"
SOCKS_REPLY: Final = b"\x05\x00\x00\x01" + bytes(6)
PAUSE_S: Final = 0.1
"""Long enough for the bytes before it to arrive by themselves."""

Answer = Callable[[socket.socket], None]


@contextlib.contextmanager
def proxy(answer: Answer) -> Iterator[str]:
    """The address of a proxy that answers its one client so, and has hung up at the end."""

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as client:
            answer(client)

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        thread.join()


def connected(
    kind: ProxyKind, address: str, password: str | None = None, *, user: str | None = None, term_s: float = 10.0
) -> socket.socket:
    """A connection to a broker through this proxy."""
    login = None if password is None else Secret(password)
    through = Proxy(kind=kind, address=address, username=user, password=login)
    return reach(Cluster(alias="east", bootstrap_servers=("b:9092",), proxy=through), "b", 9092, term_s)


def read(sock: socket.socket, size: int) -> bytes:
    """Exactly this many bytes.

    :raises ConnectionResetError: The other side has hung up.
    """
    found = b""
    while len(found) < size:
        more = sock.recv(size - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found


def http(*parts: bytes) -> Answer:
    """An HTTP proxy that sends its answer in these parts, each of which arrives by itself."""

    def answer(client: socket.socket) -> None:
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            asked += read(client, 1)
        for part in parts:
            client.sendall(part)
            time.sleep(PAUSE_S)

    return answer


def socks(login: tuple[str, str], *, reply_pause_s: float = 0.0) -> Answer:
    """A SOCKS5 proxy that wants this login, and sends its last reply byte by byte."""

    def answer(client: socket.socket) -> None:
        _, count = read(client, 2)
        assert 2 in read(client, count)
        client.sendall(b"\x05\x02")
        read(client, 1)
        given = tuple(read(client, read(client, 1)[0]).decode() for _ in login)
        client.sendall(b"\x01\x00" if given == login else b"\x01\x01")
        read(client, 4 + 1 + len("b") + 2)
        for byte in SOCKS_REPLY:
            client.sendall(bytes((byte,)))
            time.sleep(reply_pause_s)
        client.sendall(BROKER)

    return answer


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 200 OK\r\n", b"Via: a proxy\r\n\r\n", BROKER),
        (b"HTTP/1.1 2", b"00 OK\r\n\r\n", BROKER),
        (b"HTTP/1.1 200 OK\r\n\r\n" + BROKER,),
        (b"HTTP/1.1 204 No Content\r\n\r\n", BROKER),
    ],
    ids=["head in two", "status in two", "all in one", "another success"],
)
def test_the_next_byte_is_the_brokers(parts: tuple[bytes, ...]) -> None:
    """However the head of the answer arrives: what follows belongs to the broker, and is all there."""
    with proxy(http(*parts)) as address, connected("http", address) as sock:
        assert read(sock, len(BROKER)) == BROKER


@pytest.mark.parametrize("password", [PASSWORD, ""], ids=["UTF-8", "empty"])
def test_a_login_may_be_any_text(password: str) -> None:
    """A password beyond ASCII is sent as UTF-8, and one may be empty."""
    with proxy(socks(("me", password))) as address, connected("socks5", address, password, user="me") as sock:
        assert read(sock, len(BROKER)) == BROKER


def test_a_login_that_does_not_fit_is_refused() -> None:
    """A SOCKS5 login has a byte for its length."""
    with proxy(socks(("me", PASSWORD))) as address, pytest.raises(AuthenticationFailed, match="no more than 255 bytes"):
        connected("socks5", address, "p" * 256, user="me")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("socks5", socks(("me", PASSWORD), reply_pause_s=0.2)),
        ("http", http(*(bytes((byte,)) for byte in b"HTTP/1.1 200 OK\r\n\r\n"))),
    ],
)
def test_the_term_is_that_of_the_whole_handshake(kind: ProxyKind, answer: Answer) -> None:
    """A proxy that sends a byte now and then does not prolong it."""
    with proxy(answer) as address, pytest.raises(Unreachable, match="timed out"):
        connected(kind, address, PASSWORD, user="me", term_s=0.5)


def test_another_server_is_no_proxy() -> None:
    """A server that says something else is named."""
    with (
        proxy(http(b"SSH-2.0-OpenSSH\r\n")) as address,
        pytest.raises(Unreachable, match="does not answer as an HTTP proxy does") as told,
    ):
        connected("http", address)
    assert told.value.hint == "Check clusters.east.proxy: scheme (socks5 or http), host and port."
