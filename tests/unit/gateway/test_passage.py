"""Connections through a gateway: how they begin and end, and what nobody else is disturbed by."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trustme

from isthmus.gateway.bounds import DEFAULTS, GatewayBounds, GatheringRoom
from isthmus.gateway.frames.layout import written_uvarint
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.server import GatewaySettings
from isthmus.kafka.batches.batch import HEADER
from isthmus.kafka.connect.certificates import serving_context
from isthmus.model.cluster import Proxy, Security
from isthmus.model.process.listening import ListenAddress
from tests.unit.gateway.passages import (
    HOST,
    LARGE,
    TERM_S,
    Broker,
    Place,
    answered,
    found,
    is_ended,
    place,
    request,
    run,
    until,
)


def produce(correlation: int, size: int) -> bytes:
    """A Produce without acknowledgement."""
    body = struct.pack(">hhh", -1, -1, 0) + bytes(size)
    return struct.pack(">ihhi", 8 + len(body), 0, 3, correlation) + body


def test_whoever_reads_nothing_holds_up_nobody() -> None:
    """Of a client that takes no answers little is kept; others are served, and after a while it is left."""

    async def story() -> None:
        bounds = replace(DEFAULTS, stalled_s=1.0)
        async with place(bounds, broker=Broker(answer_bytes=LARGE)) as here:
            _, writer = await here.connect()
            cast("asyncio.Transport", writer.transport).pause_reading()
            writer.write(b"".join(request(number) for number in range(200)))
            (passage,) = await found(here)
            await until(lambda: here.broker.asked_bytes)
            await until(lambda: passage.client.transport.get_write_buffer_size() > 0)

            reader, other = await here.connect()
            other.write(request(7))
            assert await answered(reader) == 7
            assert passage.client.transport.get_write_buffer_size() <= 2 * LARGE
            assert len(passage.conversation.expected) > 100
            await until(lambda: passage not in here.gateway.passages)
            other.write(request(8))
            assert await answered(reader) == 8

    run(story())


def test_requests_wait_where_too_many_are_not_answered() -> None:
    """A broker that answers nothing is sent so many requests and no more; answers let the next ones come."""

    async def story() -> None:
        async with place(replace(DEFAULTS, waiting=10)) as here:
            here.broker.lets.clear()
            reader, writer = await here.connect()
            (passage,) = await found(here)
            for number in range(100):
                writer.write(request(number, 300_000))
            await until(lambda: len(passage.conversation.expected) >= 10)
            await asyncio.sleep(0.05)
            assert len(passage.conversation.expected) < 20
            here.broker.lets.set()
            assert [await answered(reader) for _ in range(100)] == list(range(100))

    run(story())


def test_who_says_nothing_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """A connection without a request ends in time; one that has sent a request stays."""

    async def story() -> None:
        async with place(replace(DEFAULTS, first_frame_s=0.2)) as here:
            silent, _ = await here.connect()
            reader, writer = await here.connect()
            writer.write(request(1))
            assert await answered(reader) == 1
            assert await is_ended(silent)
            writer.write(request(2))
            assert await answered(reader) == 2

    run(story())
    assert "sent no request within 0.2 s" in caplog.text


def test_who_does_not_log_in_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Where brokers ask for a login, a client that asks something else again and again does not stay."""

    async def story() -> None:
        security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN")
        async with place(replace(DEFAULTS, login_s=0.2), security=security) as here:
            reader, writer = await here.connect()
            writer.write(request(1, key=17, version=1))
            assert await answered(reader) == 1
            assert await is_ended(reader)

    run(story())
    assert "did not log in within 0.2 s" in caplog.text


@pytest.mark.parametrize("bounds", [replace(DEFAULTS, connections=2), replace(DEFAULTS, connections_per_address=2)])
def test_connections_that_are_too_many(bounds: GatewayBounds, caplog: pytest.LogCaptureFixture) -> None:
    """One more than may be is refused; when another has left, the next comes in."""

    async def story() -> None:
        async with place(bounds) as here:
            kept = [await here.connect() for _ in range(2)]
            for reader, writer in kept:
                writer.write(request(1))
                assert await answered(reader) == 1
            refused, _ = await here.connect()
            assert await is_ended(refused)
            kept.pop()[1].close()
            await until(lambda: len(here.gateway.passages) == 1)
            reader, writer = await here.connect()
            writer.write(request(2))
            assert await answered(reader) == 2

    run(story())
    assert "connections" in caplog.text


def test_what_was_sent_before_the_end_arrives() -> None:
    """A producer that waits for no acknowledgement sends and leaves: all of it reaches the broker."""

    async def story() -> None:
        async with place() as here:
            _, writer = await here.connect()
            sent = produce(1, 5 * LARGE) + produce(2, 7)
            writer.write(sent)
            writer.close()
            await writer.wait_closed()
            await until(lambda: here.broker.asked_bytes == len(sent))
            async with asyncio.timeout(TERM_S):
                await here.broker.ended.wait()

    run(story())


def test_an_end_in_good_order() -> None:
    """What is asked is answered, what is begun is taken to its end, and then the connection ends; no other begins."""

    async def story() -> None:
        async with place() as here:
            here.broker.lets.clear()
            reader, writer = await here.connect()
            first, second = request(1), request(2, 100)
            writer.write(first + second[:50])
            await until(lambda: here.broker.asked_bytes == len(first))
            draining = asyncio.create_task(here.gateway.drain())
            await asyncio.sleep(0.02)
            assert await is_ended((await here.connect())[0])
            assert not draining.done()
            writer.write(second[50:] + request(3))
            here.broker.lets.set()

            assert [await answered(reader), await answered(reader)] == [1, 2]
            assert await is_ended(reader)
            await draining
            assert here.broker.asked_bytes == len(first + second)

    run(story())


def test_an_end_takes_what_is_being_answered_to_its_end() -> None:
    """A large answer of which the first bytes have come is no end in the middle of it."""

    async def story() -> None:
        async with place(broker=Broker(answer_bytes=20 * LARGE)) as here:
            reader, writer = await here.connect()
            writer.write(request(1))
            first = await reader.readexactly(8)
            draining = asyncio.create_task(here.gateway.drain())
            async with asyncio.timeout(TERM_S):
                rest = await reader.read(-1)
                await draining
            assert len(first) + len(rest) == 4 + 20 * LARGE

    run(story())


def test_an_end_does_not_wait_for_ever() -> None:
    """A broker that does not answer is not waited for."""

    async def story() -> None:
        async with place(replace(DEFAULTS, drain_s=0.1)) as here:
            here.broker.lets.clear()
            reader, writer = await here.connect()
            writer.write(request(1))
            await until(lambda: here.broker.asked_bytes)
            await here.gateway.drain()
            here.gateway.close()
            assert await is_ended(reader)

    run(story())


def test_a_broker_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Any other tells at its port where to go on, and does nothing else: it leads other partitions and coordinates
    other groups, also when the broker is back. Without one the connection ends.
    """

    async def story() -> None:
        async with place() as here:
            ((_, port),) = here.gateway.brokers.values()
            here.gateway.know({1: (HOST, 1), 2: (HOST, port)})
            reader, writer = await here.connect()
            writer.write(request(1, key=17, version=1))
            assert await answered(reader) == 1
            writer.write(request(2))
            assert await is_ended(reader)
            here.gateway.know({1: (HOST, 1)})
            assert await is_ended((await here.connect())[0])
            here.gateway.know({})
            assert await is_ended((await here.connect())[0])

    run(story())
    assert "broker 1: east at 127.0.0.1:1 does not answer" in caplog.text
    assert "no broker that serves" in caplog.text


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff" + bytes(20), request(1, key=17, version=0)])
def test_what_does_not_pass_ends_one_connection(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is told, and others are not disturbed."""

    async def story() -> None:
        async with place() as here:
            reader, writer = await here.connect()
            bad, sending = await here.connect()
            sending.write(sent)
            assert await is_ended(bad)
            writer.write(request(1))
            assert await answered(reader) == 1
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(story())
    assert caplog.text.count("a connection from 127.0.0.1 was ended") == 1


def test_tls_with_clients() -> None:
    """With a certificate a gateway speaks TLS, and whoever does not is refused; what comes with the last bytes of the
    handshake is not lost.
    """
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    async def story() -> None:
        async with place(broker=Broker(answer_bytes=3 * LARGE), context=context) as here:
            for number in range(20):
                reader, writer = await here.connect(ssl=trust, server_hostname="localhost")
                writer.write(request(number, 100_000))
                assert await answered(reader) == number
                writer.close()
            plain, sending = await here.connect()
            sending.write(request(1))
            assert await is_ended(plain)

    run(story())


def test_who_leaves_within_a_handshake_is_gone() -> None:
    """It takes nobody's place any more, nor does one that stays silent there."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def story() -> None:
        async with place(replace(DEFAULTS, first_frame_s=0.2), context=context) as here:
            _, silent = await here.connect()
            _, leaving = await here.connect()
            await until(lambda: len(here.gateway.passages) == 2)
            reset(leaving)
            await until(lambda: not here.gateway.passages)
            silent.close()

    run(story())


def test_a_renewal_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate may be written before its key: handshakes go on with the former ones, and so does the look for
    brokers; an answer that names none is no news.
    """
    authority = trustme.CA()
    former, later = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    certificate.write_bytes(former.cert_chain_pems[0].bytes())
    key.write_bytes(former.private_key_pem.bytes())
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    async def story() -> None:
        async with place(context=serving_context(certificate, key)) as here:
            looks = 0

            async def metadata() -> Any:
                nonlocal looks
                looks += 1
                return SimpleNamespace(brokers={})

            monkeypatch.setattr(here.gateway.client, "metadata", metadata)
            settings = GatewaySettings(
                listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1), certificate=certificate, key=key
            )
            following = asyncio.create_task(here.gateway.follow(settings, every_s=0.02))
            await until(lambda: looks)
            certificate.write_bytes(later.cert_chain_pems[0].bytes())
            os.utime(certificate, (1, 1))
            await until(lambda: "cannot be used" in caplog.text)
            before = looks
            await until(lambda: looks > before + 1)
            reader, writer = await here.connect(ssl=trust, server_hostname="localhost")
            writer.write(request(1))
            assert await answered(reader) == 1
            writer.close()
            following.cancel()

    run(story())


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("leave", [reset, asyncio.StreamWriter.close])
def test_who_leaves_while_the_broker_is_mute_is_gone(leave: Callable[[asyncio.StreamWriter], None]) -> None:
    """A client that is not read from, as its broker answers nothing, is noticed when it leaves."""

    async def story() -> None:
        async with place(replace(DEFAULTS, waiting=10, gone_s=0.1)) as here:
            here.broker.lets.clear()
            _, writer = await here.connect()
            (passage,) = await found(here)
            for number in range(20):
                writer.write(request(number))
            await until(lambda: "answers" in passage._in_the_way)
            leave(writer)
            await until(lambda: not here.gateway.passages)

    run(story())


def test_a_dial_that_takes_long_is_not_the_client_being_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a broker is being connected to, nobody hears what the client says: its time begins afterwards."""

    async def story() -> None:
        async with place(replace(DEFAULTS, first_frame_s=0.2)) as here:
            connect, lets = here.gateway._connect, asyncio.Event()

            async def connect_late(*to: Any) -> None:
                await lets.wait()
                await connect(*to)

            monkeypatch.setattr(here.gateway, "_connect", connect_late)
            reader, writer = await here.connect()
            writer.write(request(1))
            (passage,) = await found(here)
            await asyncio.sleep(0)
            assert not passage.overdue(time.monotonic() + 3600)
            lets.set()
            assert await answered(reader) == 1

    run(story())


def test_dials_that_hang_hold_up_no_others() -> None:
    """Behind a proxy that does not get to one broker, another one is reached at once."""

    hanging: list[asyncio.StreamWriter] = []

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        if asked.endswith(":1"):
            hanging.append(writer)
        else:
            behind, beyond = await asyncio.open_connection(HOST, int(asked.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            beyond.write(await reader.readexactly(len(request(1))))
            writer.write(await behind.read(LARGE))
            beyond.close()
            writer.close()

    async def story() -> None:
        server = await asyncio.start_server(through, HOST, 0)
        proxy = Proxy(kind="http", address=f"{HOST}:{server.sockets[0].getsockname()[1]}")
        async with server, place(replace(DEFAULTS, connect_s=20.0), proxy=proxy) as here:
            ((_, port),) = here.gateway.brokers.values()
            here.gateway.know({1: (HOST, 1)})
            for _ in range(50):
                await here.connect()
            await until(lambda: len(here.gateway.passages) == 50)
            here.gateway.know({1: (HOST, port)})
            reader, writer = await here.connect()
            writer.write(request(1))
            async with asyncio.timeout(10):
                assert await answered(reader) == 1
            for each in hanging:
                each.transport.abort()
            await until(lambda: len(here.gateway.passages) <= 1)

    run(story())


def test_what_a_client_sends_on_does_not_take_its_answers_away() -> None:
    """At an end in good order a client that goes on asking has all of its answers, and then the end: its socket is not
    closed before it, which would reset the connection and lose what is on its way.
    """

    async def story() -> None:
        async with place(broker=Broker(answer_bytes=4 * LARGE)) as here:
            here.broker.lets.clear()
            reader, writer = await here.connect()
            writer.write(request(1))
            await until(lambda: here.broker.asked_bytes)
            draining = asyncio.create_task(here.gateway.drain())
            await asyncio.sleep(0.01)
            writer.write(produce(2, LARGE))
            cast("asyncio.Transport", writer.transport).pause_reading()
            here.broker.lets.set()
            await asyncio.sleep(0.3)
            cast("asyncio.Transport", writer.transport).resume_reading()
            async with asyncio.timeout(TERM_S):
                got = b""
                while chunk := await reader.read(LARGE):
                    got += chunk
            assert len(got) == 4 + 4 * LARGE
            writer.close()
            await draining
            assert not here.gateway.passages

    run(story())


def share_fetch(correlation: int) -> bytes:
    """The frame of a ShareFetch whose body nobody reads."""
    body = struct.pack(">hhih", 78, 1, correlation, -1) + bytes(1)
    return struct.pack(">i", len(body)) + body


def shared(correlation: int, size: int) -> bytes:
    """The answer to a ShareFetch with so many bytes of records in one partition."""
    count = bytes([2])
    partition = bytes(6) + b"\0" + bytes(2) + b"\0" + bytes(8) + b"\0" + written_uvarint(size + 1) + bytes(size)
    topic = bytes(16) + count + partition + b"\1" + b"\0" + b"\0"
    body = b"\0" + bytes(6) + b"\0" + bytes(4) + count + topic + b"\1" + b"\0"
    return struct.pack(">ii", 4 + len(body), correlation) + body


def watched(room: GatheringRoom, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much of a room was taken each time that somebody had asked for a part of it."""
    found, ask = list[int](), room.ask

    def noted(who: object, size: int, then: Callable[[], None]) -> None:
        ask(who, size, then)
        found.append(room.taken_bytes)

    monkeypatch.setattr(room, "ask", noted)
    return found


def test_large_answers_share_a_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gathered of answers has a bound for all connections together: who finds no room waits, and has its answer
    when another one has got its own.
    """

    async def story() -> None:
        bounds = replace(DEFAULTS, gathered_bytes=6 * LARGE)
        async with place(bounds) as here:
            room = here.gateway._rooms[1]
            taken = watched(room, monkeypatch)

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readexactly(len(share_fetch(1)))
                for piece in range(0, len(answer), LARGE):
                    writer.write(answer[piece : piece + LARGE])
                    await writer.drain()
                    await asyncio.sleep(0.01)
                writer.close()

            answer = shared(1, 4 * LARGE)
            behind = await asyncio.start_server(serve, HOST, 0)
            async with behind:
                here.gateway.know({1: (HOST, behind.sockets[0].getsockname()[1])})
                clients = [await here.connect() for _ in range(5)]
                for _, writer in clients:
                    writer.write(share_fetch(1))
                async with asyncio.timeout(TERM_S):
                    for reader, _ in clients:
                        assert await reader.readexactly(len(answer)) == answer
                assert 4 * LARGE < max(taken) <= 6 * LARGE
                await until(lambda: not room.taken_bytes)

    run(story())


def test_a_large_answer_that_does_not_end_gives_its_room_to_others(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that stops in the middle of an answer keeps no room for long."""

    async def story() -> None:
        async with place(replace(DEFAULTS, gathered_bytes=6 * LARGE, gathering_s=0.2)) as here:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readexactly(len(share_fetch(1)))
                writer.write(shared(1, 4 * LARGE)[:LARGE])
                await reader.read()
                writer.close()

            behind = await asyncio.start_server(serve, HOST, 0)
            async with behind:
                here.gateway.know({1: (HOST, behind.sockets[0].getsockname()[1])})
                reader, writer = await here.connect()
                writer.write(share_fetch(1))
                assert await is_ended(reader)
                assert not here.gateway._rooms[1].taken_bytes

    run(story())
    assert "did not finish a large answer" in caplog.text


def written(size: int) -> bytes:
    """The frame of a Produce with acks=all, and one batch of so many bytes."""
    batch = HEADER.pack(0, size - 12, 0, 2, 0, 0, 0, 0, 0, 7, 0, 0, 1) + bytes(size - HEADER.size)
    body = struct.pack(">hhhiih6siii", -1, -1, -1, 30_000, 1, 6, b"orders", 1, 0, len(batch)) + batch
    return struct.pack(">ihhi", 8 + len(body), 0, 3, 7) + body


@asynccontextmanager
async def gathering(bounds: GatewayBounds) -> AsyncIterator[Place]:
    """A gateway that has each Produce there as a whole before it passes."""
    async with place(bounds) as here:
        here.gateway.serving = replace(here.gateway.serving, stay=2)
        yield here


def test_large_requests_share_a_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gathered of requests has a bound for all connections together: who finds no room waits, and is read when
    another one has passed.
    """
    sent = written(4 * LARGE)

    async def story() -> None:
        async with gathering(replace(DEFAULTS, gathered_bytes=6 * LARGE)) as here:
            room = here.gateway._rooms[0]
            taken = watched(room, monkeypatch)

            async def send() -> None:
                _, writer = await here.connect()
                for at in range(0, len(sent), LARGE // 4):
                    writer.write(sent[at : at + LARGE // 4])
                    await writer.drain()

            async with asyncio.timeout(TERM_S):
                await asyncio.gather(*(send() for _ in range(5)))
                await until(lambda: here.broker.asked_bytes == 5 * len(sent))
            assert 4 * LARGE < max(taken) <= 6 * LARGE
            await until(lambda: not room.taken_bytes)

    run(story())


def test_a_large_request_that_does_not_end_is_in_the_way_of_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """A client that stops in the middle of a request keeps its room until others wait for it, and one that leaves
    gives it back.
    """
    sent = written(4 * LARGE)

    async def story() -> None:
        async with gathering(replace(DEFAULTS, gathered_bytes=6 * LARGE, gathering_s=0.2)) as here:
            room = here.gateway._rooms[0]
            reader, writer = await here.connect()
            writer.write(sent[:LARGE])
            await until(lambda: bool(room.taken_bytes))
            await asyncio.sleep(0.6)
            assert not reader.at_eof()
            _, other = await here.connect()
            other.write(sent)
            assert await is_ended(reader)
            await until(lambda: here.broker.asked_bytes == len(sent))
            _, third = await here.connect()
            third.write(sent[:LARGE])
            await until(lambda: bool(room.taken_bytes))
            third.close()
            await until(lambda: not room.taken_bytes)

    run(story())
    assert "did not finish a large request" in caplog.text


def test_a_large_request_behind_another_has_its_own_room() -> None:
    """Who sends one behind the other has room for each as it comes, and no longer than for that one."""
    first, second = written(2 * LARGE), written(5 * LARGE)

    async def story() -> None:
        async with gathering(replace(DEFAULTS, gathered_bytes=6 * LARGE)) as here:
            room = here.gateway._rooms[0]
            _, writer = await here.connect()
            writer.write(first + second[:LARGE])
            await until(lambda: here.broker.asked_bytes == len(first))
            await until(lambda: room.taken_bytes == len(second))
            _, other = await here.connect()
            other.write(first[:LARGE])
            await until(lambda: room.is_wanted)
            writer.write(second[LARGE:])
            await until(lambda: room.taken_bytes == len(first))
            assert not room.is_wanted

    run(story())
