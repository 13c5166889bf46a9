"""Connections that stand still, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from isthmus.web.patience import patient
from testing.patience import TERM_S, pause_s

_HOST = "127.0.0.1"
_PATIENCE_S = 0.1
PATIENT = patient(_PATIENCE_S)
_CHUNK = b"x" * (1 << 16)
_ASKED = b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n"


class Served:
    """A server whose `/endless` is never told to its end, and whose `/late` is answered once that is allowed."""

    def __init__(self) -> None:
        self.state = ServerState()
        self.allowed = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.begun.set()
        if scope["path"] == "/late":
            await self.allowed.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000000")]})
        while scope["path"] == "/endless":
            await send({"type": "http.response.body", "body": _CHUNK, "more_body": True})
            # Whoever was left is sent nothing, and that takes no time.
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @contextlib.asynccontextmanager
    async def listening(self, kind: type[H11Protocol] = PATIENT) -> AsyncIterator[int]:
        """The port."""
        config = uvicorn.Config(self, http=kind, lifespan="off", log_config=None)
        config.load()
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return kind(config=config, server_state=self.state, app_state={})

        async with asyncio.timeout(TERM_S), await loop.create_server(protocol, _HOST, 0) as server:
            yield server.sockets[0].getsockname()[1]

    async def only(self, count: int) -> None:
        """Wait until there are so many connections."""
        while len(self.state.connections) != count:
            await asyncio.sleep(pause_s(0))


def test_who_asks_nothing_is_left() -> None:
    """Also in the middle of a request, and behind one that was answered."""

    async def scenario() -> None:
        served = Served()
        async with served.listening() as port:
            for sent in (b"", b"GET / HTTP/1.1\r\nHost:", _ASKED % b"" + b"GET"):
                reader, writer = await asyncio.open_connection(_HOST, port)
                writer.write(sent)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                await served.only(0)
                writer.close()

    asyncio.run(scenario())


def test_who_reads_nothing_is_left() -> None:
    """Though an answer is on its way."""

    async def scenario() -> None:
        served = Served()
        async with served.listening() as port:
            _, writer = await asyncio.open_connection(_HOST, port, limit=1)
            writer.write(_ASKED % b"endless")
            await served.begun.wait()
            await served.only(0)
            writer.close()

    asyncio.run(scenario())


def test_an_answer_may_take_its_time() -> None:
    """Whoever waits for one is not left, while somebody who asks nothing is."""

    async def scenario() -> None:
        served = Served()
        async with served.listening() as port:
            waiting, asking = await asyncio.open_connection(_HOST, port)
            asking.write(_ASKED % b"late")
            await served.begun.wait()
            _, idle = await asyncio.open_connection(_HOST, port)
            await served.only(2)
            await served.only(1)
            served.allowed.set()
            assert (await waiting.readline()).startswith(b"HTTP/1.1 200")
            for writer in (asking, idle):
                writer.close()

    asyncio.run(scenario())


def test_who_comes_is_let_in_however_many_are_connected() -> None:
    """The connection on which nothing is asked for longest makes room; one that waits for its answer does not."""

    async def scenario() -> None:
        served = Served()
        async with served.listening(patient(TERM_S, 2)) as port:
            waiting, asking = await asyncio.open_connection(_HOST, port)
            asking.write(_ASKED % b"late")
            await served.begun.wait()
            idle, silent = await asyncio.open_connection(_HOST, port)
            await served.only(2)
            other, coming = await asyncio.open_connection(_HOST, port)
            with contextlib.suppress(ConnectionError):
                assert await idle.read() == b""
            served.allowed.set()
            assert (await waiting.readline()).startswith(b"HTTP/1.1 200")
            coming.write(_ASKED % b"")
            assert (await other.readline()).startswith(b"HTTP/1.1 200")
            for writer in (asking, silent, coming):
                writer.close()

    asyncio.run(scenario())
