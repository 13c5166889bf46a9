"""A relay and what it is told: who may, who is asked for, what passes, and what it holds back."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from isthmus.errors import ConfigError, PortBusy
from isthmus.model.process.listening import ListenAddress
from isthmus.relay.passing import Stream
from isthmus.relay.server import RelaySettings, listening
from isthmus.relay.speech import BUFFER_BYTES, Head, NotUnderstood, Tokens, line, read_line, read_status

TOKEN = "open-sesame"
BROKER = "broker-1.east.invalid:9092"


@dataclass(slots=True)
class Place:
    """A relay that listens, how it is reached, and its token's file."""

    port: int
    context: ssl.SSLContext
    token: Path
    streams: list[Stream] = field(default_factory=list)

    async def dial(self, head: Head) -> Stream:
        """A connection that begins so."""
        stream = Stream(*await asyncio.open_connection("localhost", self.port, ssl=self.context))
        self.streams.append(stream)
        stream.writer.write(head.encode())
        return stream

    async def joined(self, side: str = "east", *brokers: str) -> Stream:
        """An agent's connection; the relay knows its brokers when this returns."""
        agent = await self.dial(Head("JOIN", "", side, TOKEN))
        assert await read_status(agent.reader) == (200, "joined")
        agent.writer.write(line(brokers=list(brokers or (BROKER,))))
        assert await read_line(agent.reader) == {}
        return agent

    async def connected(self, agent: Stream) -> tuple[Stream, Stream]:
        """A link's end and the broker's."""
        link = await self.dial(Head("CONNECT", BROKER, "east", TOKEN))
        asked = await read_line(agent.reader)
        assert asked["broker"] == BROKER
        broker = await self.dial(Head("ACCEPT", asked["open"], "east", TOKEN))
        assert await read_status(link.reader) == (200, "connected")
        return link, broker


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the relay's certificate."""
    return trustme.CA()


@asynccontextmanager
async def relay(folder: Path, authority: trustme.CA, *, connections_max: int = 100) -> AsyncIterator[Place]:
    """A relay on a free port."""
    settings = settings_in(folder, authority, connections_max=connections_max)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    place = Place(settings.listen.port, context, settings.token)
    async with listening(settings):
        try:
            yield place
        finally:
            for stream in place.streams:
                stream.reset()
            await asyncio.sleep(0)


def settings_in(folder: Path, authority: trustme.CA, *, connections_max: int = 100) -> RelaySettings:
    """The settings of a relay on a free port, its files in this folder."""
    issued = authority.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(folder / "relay.pem")
    issued.private_key_pem.write_to_path(folder / "relay.key")
    (folder / "token").write_text(f"{TOKEN}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return RelaySettings(
        listen=ListenAddress("127.0.0.1", port),
        certificate=folder / "relay.pem",
        key=folder / "relay.key",
        token=folder / "token",
        connections_max=connections_max,
    )


def scenario(work: Callable[[Place], Awaitable[None]], folder: Path, authority: trustme.CA) -> None:
    """Run it beside a relay."""

    async def run() -> None:
        async with relay(folder, authority) as place:
            await work(place)

    asyncio.run(run())


def test_bytes_pass_both_ways(tmp_path: Path, authority: trustme.CA) -> None:
    """Names are compared whatever their case; what one end has sent before it closes arrives at the other."""

    async def work(place: Place) -> None:
        link, broker = await place.connected(await place.joined("east", BROKER))
        link.writer.write(b"question")
        assert await broker.reader.readexactly(8) == b"question"
        broker.writer.write(b"a long answer" * 100_000)
        broker.writer.close()
        assert await link.reader.read() == b"a long answer" * 100_000

    scenario(work, tmp_path, authority)


def test_who_is_refused(tmp_path: Path, authority: trustme.CA) -> None:
    """Another token, a side that nobody is, a broker that the side does not know, a stranger's protocol: each is told
    why, and the next one is served.
    """

    async def told(place: Place, head: Head) -> tuple[int, str]:
        stream = await place.dial(head)
        status = await read_status(stream.reader)
        assert await stream.reader.read() == b""
        return status

    async def work(place: Place) -> None:
        agent = await place.joined()
        for verb in ("CONNECT", "JOIN", "ACCEPT"):
            assert (await told(place, Head(verb, BROKER, "east", "guessed")))[0] == 407
        assert await told(place, Head("CONNECT", BROKER, "west", TOKEN)) == (404, "no side has joined as west")
        assert await told(place, Head("CONNECT", "other:22", "east", TOKEN)) == (404, "east knows no such broker")
        assert (await told(place, Head("ACCEPT", "guessed", "east", TOKEN)))[0] == 404
        assert (await told(place, Head("GET", "/", "east", TOKEN)))[0] == 405
        link = await place.dial(Head("CONNECT", BROKER, "east", TOKEN))
        asked = await read_line(agent.reader)
        agent.writer.write(line(failed=asked["open"], reason="connection refused\r\nX: y"))
        assert await read_status(link.reader) == (502, "connection refused  X: y")
        await place.connected(agent)

    scenario(work, tmp_path, authority)


def test_a_token_changes_without_a_restart(tmp_path: Path, authority: trustme.CA) -> None:
    """Old and new one are both taken while both are in the file; one that is being written changes nothing."""

    async def work(place: Place) -> None:
        place.token.write_text("")
        await place.joined()
        place.token.write_text(f"newer\n{TOKEN}\n")
        await place.joined()
        place.token.write_text("newer\n")
        refused = await place.dial(Head("JOIN", "", "east", TOKEN))
        assert (await read_status(refused.reader))[0] == 407

    scenario(work, tmp_path, authority)
    assert Tokens(tmp_path / "token").first == "newer"
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(ConfigError, match="holds no token"):
        Tokens(tmp_path / "token")


def test_what_is_broken_off_is_so_at_the_other_end(tmp_path: Path, authority: trustme.CA) -> None:
    """Bytes that a link has taken back by a reset do not reach the broker later."""

    async def work(place: Place) -> None:
        link, broker = await place.connected(await place.joined())
        # Nobody reads at the broker's end, so the relay holds back what comes.
        sock = link.writer.get_extra_info("socket")
        link.writer.write(bytes(16 << 20))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.writer.transport.abort()
        read = 0
        try:
            while data := await broker.reader.read(1 << 20):
                read += len(data)
        except ConnectionError:
            pass
        assert read < 16 << 20

    scenario(work, tmp_path, authority)


def test_a_slow_reader_is_waited_for(tmp_path: Path, authority: trustme.CA) -> None:
    """The relay holds back no more than its buffers while nobody reads, and everything arrives when somebody does."""

    async def work(place: Place) -> None:
        link, broker = await place.connected(await place.joined())
        link.writer.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(512):
                link.writer.write(bytes(BUFFER_BYTES))
                await link.writer.drain()
                sent += BUFFER_BYTES

        sending = asyncio.create_task(send())
        before = -1
        # It stands still where all buffers on the way are full: those of four sockets and of the relay.
        while sent != before:
            before = sent
            await asyncio.sleep(0.3)
        assert 0 < sent < 28 << 20
        received = 0
        while received < 32 << 20:
            received += len(await broker.reader.read(1 << 20))
        await sending

    scenario(work, tmp_path, authority)


def test_the_agent_that_joined_last_is_asked(tmp_path: Path, authority: trustme.CA) -> None:
    """An older one, which NAT may have forgotten, is asked again when the newer one leaves; who waits is told then."""

    async def work(place: Place) -> None:
        older, newer = await place.joined(), await place.joined()
        await place.connected(newer)
        link = await place.dial(Head("CONNECT", BROKER, "east", TOKEN))
        await read_line(newer.reader)
        newer.reset()
        assert await read_status(link.reader) == (502, "east has left")
        await place.connected(older)

    scenario(work, tmp_path, authority)


def test_more_connections_than_allowed(tmp_path: Path, authority: trustme.CA) -> None:
    """They are refused, and let in when others have gone."""

    async def run() -> None:
        async with relay(tmp_path, authority, connections_max=3) as place:
            agent = await place.joined()
            link, broker = await place.connected(agent)
            refused = await place.dial(Head("CONNECT", BROKER, "east", TOKEN))
            assert (await read_status(refused.reader))[0] == 503
            for each in (refused, link, broker):
                each.reset()
            while True:
                link = await place.dial(Head("JOIN", "", "west", TOKEN))
                if (await read_status(link.reader))[0] == 200:
                    break

    asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [b"", b"\x16\x03\x01", b"GET / HTTP/1.1 more\r\n", b"CONNECT x HTTP/1.1\r\nAuthorization: Basic ???\r\n"],
)
def test_what_is_no_head(data: bytes) -> None:
    """It is not understood."""
    with pytest.raises(NotUnderstood):
        Head.parse(data)


def test_what_cannot_be_used(tmp_path: Path, authority: trustme.CA) -> None:
    """A port that is taken, a key that is not the certificate's, a token that is not there: each is told."""

    async def listen(settings: RelaySettings) -> None:
        async with listening(settings):
            pass

    settings = settings_in(tmp_path, authority)
    with socket.create_server(("127.0.0.1", settings.listen.port)), pytest.raises(PortBusy, match="cannot listen"):
        asyncio.run(listen(settings))
    authority.issue_cert("other").private_key_pem.write_to_path(settings.key)
    with pytest.raises(ConfigError, match="certificate and its key"):
        asyncio.run(listen(settings))
    settings.token.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        asyncio.run(listen(settings))


@pytest.mark.parametrize(
    "said", [b"[" * 60_000, b"1" * 5_000, b"[]", b"{", b"\xff"], ids=["deep", "number", "list", "half", "no text"]
)
def test_what_is_no_line(said: bytes) -> None:
    """Whatever a relay or an agent says is a line or none, and ends nothing but the connection it came over."""

    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(said + b"\n")
        await read_line(reader)

    with pytest.raises(NotUnderstood):
        asyncio.run(read())


@pytest.mark.parametrize("status", ["²00", "9" * 5_000, "2", "x"])
def test_what_is_no_status(status: str) -> None:
    """A status has three figures."""

    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(f"HTTP/1.1 {status} fine\r\n\r\n".encode())
        await read_status(reader)

    with pytest.raises(NotUnderstood):
        asyncio.run(read())
