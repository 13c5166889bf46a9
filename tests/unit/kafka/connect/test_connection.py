"""One connection and a peer that takes its time, or takes nothing."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.connect import connection as module
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.dial import Dialled
from isthmus.kafka.connect.frames import Frame

LARGE: Final = 32 << 20
"""More than two sockets hold between them."""
TIMEOUT_S: Final = 15.0


@contextmanager
def connected(life_s: float | None = None) -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, whose login may have an end, and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    ours.setblocking(False)
    peer.setblocking(False)
    connection = Connection(Dialled(ours, {}, life_s), cluster="near", node_id=1, where="near at 1", client_id="test")
    with peer:
        try:
            yield connection, peer
        finally:
            connection.close()


def post(connection: Connection, size: int = 8, **settings: Any) -> asyncio.Future[Any]:
    """Send a request of `size` bytes; its answer is how long that is."""
    data = bytes(size)
    return connection.post_frame(
        Frame([data], size), lambda payload, _: len(payload), timeout_s=TIMEOUT_S, what="Fetch", **settings
    )


async def take(peer: socket.socket, size: int) -> None:
    """Have the peer take so many bytes."""
    while size > 0:
        size -= len(await asyncio.get_running_loop().sock_recv(peer, size))


class Clock:
    """The time a connection sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_an_answer_may_take_long_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large answer over a narrow line has as long as it takes: only silence is bounded, also for those behind it."""
    clock = Clock(monkeypatch)

    async def scenario() -> None:
        with connected() as (connection, peer):
            first, second = post(connection), post(connection)
            peer.sendall(struct.pack(">i", 1_000_000))
            for _ in range(10):
                clock.now += TIMEOUT_S * 0.9
                peer.sendall(bytes(100_000))
                # Not even waited for: it has arrived all the same.
                connection._check_overdue()
            assert await first == 1_000_000
            clock.now += TIMEOUT_S * 0.9
            connection._check_overdue()
            assert not second.done()
            clock.now += TIMEOUT_S * 0.2
            connection._check_overdue()
            with pytest.raises(Unreachable, match="did not answer Fetch"):
                await second

    asyncio.run(scenario())


def test_a_request_may_take_long_while_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's time for an answer begins when the request has left, and a peer that takes nothing is given up."""
    clock = Clock(monkeypatch)

    async def scenario() -> None:
        with connected() as (connection, peer):
            answer = post(connection, LARGE)
            while connection._out_bytes:
                before = connection._out_bytes
                clock.now += TIMEOUT_S * 0.9
                await take(peer, LARGE // 8)
                while connection._out_bytes == before:
                    await asyncio.sleep(0.001)
                connection._check_overdue()
                assert not connection.closed
            clock.now += TIMEOUT_S * 0.9
            connection._check_overdue()
            peer.sendall(struct.pack(">i4x", 4))
            assert await answer == 4
            stuck = post(connection, LARGE)
            clock.now += TIMEOUT_S * 1.1
            connection._check_overdue()
            with pytest.raises(Unreachable, match="did not answer Fetch"):
                await stuck

    asyncio.run(scenario())


async def rest_of(peer: socket.socket) -> int:
    """How many bytes still arrive at the peer before the connection is reset."""
    found = 0
    try:
        while size := len(await asyncio.get_running_loop().sock_recv(peer, LARGE)):
            found += size
    except ConnectionResetError:
        return found
    raise AssertionError("the connection was closed in good order")


def test_what_is_queued_does_not_leave_without_permission() -> None:
    """Permission is asked for when bytes leave: what is left of a request when it has lapsed never does."""

    async def scenario() -> None:
        is_allowed = True
        with connected() as (connection, peer):
            answer = post(connection, LARGE, may_send=lambda: is_allowed)
            left = LARGE - connection._out_bytes
            assert left < LARGE
            is_allowed = False
            assert await rest_of(peer) <= left
            with pytest.raises(Unreachable, match="not allowed any more"):
                await answer

    asyncio.run(scenario())


@pytest.mark.parametrize("lapsing", [0, 1])
def test_each_request_that_is_queued_keeps_its_own_permission(lapsing: int) -> None:
    """What a later request may do does not let out an earlier one, whose lane was paused; nor the other way round."""

    async def scenario() -> None:
        is_allowed = [True, True]
        permissions = (lambda: is_allowed[0], lambda: is_allowed[1])
        with connected() as (connection, peer):
            answers = [post(connection, LARGE, may_send=may_send) for may_send in permissions]
            left = 2 * LARGE - connection._out_bytes
            assert left < LARGE
            is_allowed[lapsing] = False
            assert await rest_of(peer) <= left
            for answer in answers:
                with pytest.raises(Unreachable, match="not allowed any more"):
                    await answer

    asyncio.run(scenario())


def test_a_request_that_has_left_needs_no_permission_any_more() -> None:
    """Of what is sent on the connection afterwards its own permission decides."""

    async def scenario() -> None:
        is_allowed = True
        with connected() as (connection, _):
            post(connection, may_send=lambda: is_allowed)
            assert not connection._out_bytes
            is_allowed = False
            post(connection, may_send=lambda: True)
            assert not connection.closed

    asyncio.run(scenario())


def test_what_has_left_is_called_back() -> None:
    """Revoked, not even what the kernel holds arrives: a peer that did not read finds what it had, and a reset."""

    async def scenario() -> None:
        with connected() as (connection, peer):
            behind = [post(connection, LARGE, may_send=lambda: True), post(connection)]
            arrived = struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, b"\0" * 4))[0]
            assert arrived < LARGE - connection._out_bytes
            connection.revoke()
            assert await rest_of(peer) <= arrived
            for answer in behind:
                with pytest.raises(Unreachable, match="not allowed any more"):
                    await answer

    asyncio.run(scenario())


def test_permission_is_needed_by_those_that_ask_for_it_only() -> None:
    """Without permission such a request does not begin to leave; others do, and keep their connection."""

    async def scenario() -> None:
        with connected() as (connection, peer):
            allowed = post(connection, may_send=lambda: True)
            peer.sendall(struct.pack(">i4x", 4))
            assert await allowed == 4
            first, refused, second = post(connection), post(connection, 16, may_send=lambda: False), post(connection)
            with pytest.raises(Unreachable, match="not allowed any more"):
                await refused
            connection.revoke()
            peer.sendall(struct.pack(">i4x", 4) * 2)
            assert (await first, await second) == (4, 4)
            assert len(peer.recv(LARGE)) == 24

    asyncio.run(scenario())


def test_a_login_that_expired_while_nothing_was_asked() -> None:
    """Nobody comes back to the connection, so it is closed; the broker would keep it for ten minutes."""

    async def scenario() -> None:
        with connected(life_s=0.0) as (connection, peer):
            assert await asyncio.get_running_loop().sock_recv(peer, 1) == b""
            assert connection.closed

    asyncio.run(scenario())


def test_a_login_that_expires_before_an_answer() -> None:
    """What was asked in time is answered, every request of it; then the connection is closed."""

    async def scenario() -> None:
        with connected(life_s=0.0) as (connection, peer):
            first, second = post(connection), post(connection)
            await take(peer, 16)
            assert not connection.closed
            for owed in (first, second):
                assert not connection.closed
                peer.sendall(struct.pack(">ixxxx", 4))
                assert await owed == 4
            assert connection.closed

    asyncio.run(scenario())


def throttled(connection: Connection, peer: socket.socket, throttle_ms: int) -> asyncio.Future[Any]:
    """A request whose answer asks to be left alone, as a broker does over its quota."""
    answer = connection.post_frame(
        Frame([bytes(8)], 8), lambda *_: SimpleNamespace(throttle_time_ms=throttle_ms), timeout_s=0.2, what="Fetch"
    )
    peer.sendall(struct.pack(">ixxxx", 4))
    return answer


def test_nothing_leaves_while_the_broker_wants_to_be_left_alone() -> None:
    """It would wait in the broker's host; afterwards it leaves, and its time counts from then on."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with connected() as (connection, peer):
            begun = loop.time()
            await throttled(connection, peer, 500)
            await take(peer, 8)
            answer = post(connection)
            assert connection.silent_s == 0.0 or time.monotonic() > connection.muted_until
            await take(peer, 8)
            assert loop.time() - begun >= 0.5
            peer.sendall(struct.pack(">ixxxx", 4))
            assert await answer == 4

    asyncio.run(scenario())


def test_what_waits_for_the_broker_can_be_taken_back() -> None:
    """A connection that is closed meanwhile leaves nothing that could take effect later."""

    async def scenario() -> None:
        with connected() as (connection, peer):
            await throttled(connection, peer, 600_000)
            await take(peer, 8)
            answer = post(connection)
            connection.close()
            with pytest.raises(Unreachable):
                await answer
            with pytest.raises(ConnectionResetError):
                await asyncio.get_running_loop().sock_recv(peer, 1)

    asyncio.run(scenario())
