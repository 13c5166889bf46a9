"""Asking a gateway by the address of its metrics: what answers there may be anything."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isthmus.errors import Unreachable
from isthmus.gateway.telling import ask_gateway
from isthmus.model.process.listening import ListenAddress


@contextmanager
def answering(said: bytes) -> Iterator[ListenAddress]:
    """Something that says this to whoever connects, whatever it is asked."""

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield ListenAddress(*server.getsockname()[:2])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html></html>",
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b'HTTP/1.1 200 OK\r\n\r\n{"clients": 3}',
        b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0",
        b"",
    ],
)
def test_what_answers_is_no_gateway(said: bytes) -> None:
    """Another protocol, an answer that is cut off, another service: it says so, and what to name instead."""
    with answering(said) as address, pytest.raises(Unreachable) as raised:
        ask_gateway(address)

    assert str(address) in str(raised.value)
    assert "--metrics" in raised.value.hint
