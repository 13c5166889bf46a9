"""A thousand streams of events on real sockets, of a server whose links nobody runs."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx2
import pytest

from isthmus import config
from isthmus.model.configuration import Configuration
from isthmus.model.links.progress import LinkProgress
from isthmus.model.state import LinkState
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.events import STREAMS_MAX
from isthmus.web.serving import ServeSettings, serving_beside
from testing.patience import TERM_S
from testing.values.standing import free_port

THOUSAND = 1000


@pytest.fixture
def asked(tmp_path: Path) -> tuple[ServeSettings, bytes, dict[str, str]]:
    """Where a server is to listen, a request for a stream, and what makes somebody a viewer."""
    tokens = TokenFile(tmp_path / "tokens.json")
    headers = {"Authorization": f"Bearer {tokens.create('many', Role.VIEWER)}"}
    address = f"127.0.0.1:{free_port()}"
    request = f"GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: {headers['Authorization']}\r\n\r\n"
    return ServeSettings(listen=address, tokens=tokens.path, requests_per_s=1e6), request.encode(), headers


def opened(address: str, request: bytes) -> tuple[socket.socket, bytes]:
    """A connection that nobody closes here, and the first that is answered on it."""
    host, _, port = address.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=TERM_S)
    connection.sendall(request)
    return connection, connection.recv(65536)


def test_a_thousand_streams_keep_nobody_from_an_answer(
    asked: tuple[ServeSettings, bytes, dict[str, str]],
) -> None:
    """So many as one caller may have are told what happens, the others when to come again; their connections are ended,
    so that whoever asks for something else is answered. A place that is left is taken.
    """
    settings, request, headers = asked
    with ExitStack() as stack:
        feed = stack.enter_context(serving_beside(Configuration(clusters=(), links=()), settings, is_fed=True)).feed
        streams: list[socket.socket] = []
        statuses: Counter[bytes] = Counter()
        for _ in range(THOUSAND):
            connection, answer = opened(settings.listen, request)
            stack.enter_context(connection)
            status = answer.split(b" ", 2)[1]
            statuses[status] += 1
            if status == b"200":
                streams.append(connection)
            else:
                assert b"".join(iter(partial(connection.recv, 65536), b"")).count(b"HTTP/1.1") == 0, "it is not ended"
        assert statuses == {b"200": STREAMS_MAX // 2, b"429": THOUSAND - STREAMS_MAX // 2}

        found = httpx2.get(f"http://{settings.listen}/v1/clusters", headers=headers, timeout=TERM_S)
        assert (found.status_code, found.json()) == (200, [])

        feed((LinkProgress(link="l", source="east", target="west", state=LinkState.ACTIVE),))
        for stream in streams:
            lines = told(stream)
            assert json.loads(next(line for line in lines if line.startswith(b"data: "))[6:])["link"] == "l"

        streams[0].close()
        answer = b""
        while not answer.startswith(b"HTTP/1.1 200"):
            connection, answer = opened(settings.listen, request)
            stack.enter_context(connection)


def test_a_stream_ends_when_its_token_is_revoked(
    asked: tuple[ServeSettings, bytes, dict[str, str]],
) -> None:
    """By itself, though nothing happens; that of another token goes on, and who asks again is not let in."""
    settings, request, headers = asked
    tokens = TokenFile(settings.tokens)
    other = tokens.create("other", Role.VIEWER)
    others = request.replace(headers["Authorization"].encode(), f"Bearer {other}".encode())
    with ExitStack() as stack:
        feed = stack.enter_context(serving_beside(Configuration(clusters=(), links=()), settings, is_fed=True)).feed
        revoked, answer = opened(settings.listen, request)
        stack.enter_context(revoked)
        going, _ = opened(settings.listen, others)
        stack.enter_context(going)
        assert answer.startswith(b"HTTP/1.1 200")
        tokens.revoke("many")

        read = b""
        while not read.endswith(b"0\r\n\r\n"):
            part = revoked.recv(65536)
            assert part, "it is not ended in good order"
            read += part
        assert httpx2.get(f"http://{settings.listen}/v1/events", headers=headers, timeout=TERM_S).status_code == 401
        feed((LinkProgress(link="l", source="east", target="west", state=LinkState.ACTIVE),))
        assert json.loads(next(line for line in told(going) if line.startswith(b"data: "))[6:])["link"] == "l"


def told(stream: socket.socket) -> Iterator[bytes]:
    """What comes, line by line."""
    with stream.makefile("rb") as lines:
        yield from iter(lines.readline, b"")


def test_who_serves_beside_a_run_goes_by_what_the_run_goes_by(
    asked: tuple[ServeSettings, bytes, dict[str, str]],
) -> None:
    """A cluster that comes while it runs is there: that the file was read again only the run knows."""
    settings, _, headers = asked
    with serving_beside(Configuration(clusters=(), links=()), settings, is_fed=True) as run:

        def found() -> list[str]:
            answer = httpx2.get(f"http://{settings.listen}/v1/clusters", headers=headers, timeout=TERM_S)
            return [each["cluster"] for each in answer.json()]

        assert found() == []
        run.take(config.parse("clusters: {a: {bootstrap_servers: 'h:1'}}"))
        assert found() == ["a"]
