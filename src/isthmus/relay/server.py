"""The relay: agents join it, links ask it for brokers, and it passes bytes between the two."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from isthmus.errors import PortBusy
from isthmus.kafka.connect.certificates import serving_context
from isthmus.model.process.listening import ListenAddress
from isthmus.relay.passing import Stream, pass_between
from isthmus.relay.speech import (
    BUFFER_BYTES,
    END_OF_HEAD,
    OPENING_S,
    Head,
    NotUnderstood,
    Tokens,
    answer,
    line,
    read_line,
)

_log = logging.getLogger(__name__)
_HEAD_S: Final = 10.0
_BACKLOG: Final = 128
_BROKERS_MAX: Final = 2000
_NAME_LENGTH_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """The address of a relay, its certificate, its tokens, and how many connections it takes at once."""

    listen: ListenAddress
    certificate: Path
    key: Path
    token: Path
    connections_max: int = 1000


@dataclass(eq=False, slots=True)
class _Agent:
    """An agent that has joined, and the brokers that it can reach."""

    side: str
    stream: Stream
    brokers: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class _Asked:
    """A link that waits for an agent to bring the broker's end. `passed` is set when both ends are finished."""

    agent: _Agent
    brought: asyncio.Future[Stream]
    passed: asyncio.Event = field(default_factory=asyncio.Event)


class NotRelayed(Exception):
    """A refusal: the status of HTTP, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


async def serve(settings: RelaySettings) -> None:
    """Serve until cancelled.

    :raises ConfigError: Certificate, key or token cannot be used.
    :raises PortBusy: Something listens there already.
    """
    async with listening(settings) as server:
        await server.serve_forever()


@contextlib.asynccontextmanager
async def listening(settings: RelaySettings) -> AsyncIterator[asyncio.Server]:
    """Listen for as long as the block runs; raises the errors of `serve`."""
    relay = _Relay(Tokens(settings.token), settings.connections_max)
    try:
        server = await asyncio.start_server(
            relay.accept,
            settings.listen.host,
            settings.listen.port,
            ssl=serving_context(settings.certificate, settings.key),
            limit=BUFFER_BYTES,
            backlog=_BACKLOG,
            ssl_handshake_timeout=_HEAD_S,
        )
    except OSError as error:
        raise PortBusy(
            f"the relay cannot listen at {settings.listen}: {error.strerror or error}",
            hint="Choose another address with --listen, or end what listens there.",
        ) from error
    _log.info("relaying at %s", settings.listen)
    try:
        yield server
    finally:
        server.close()
        await relay.aclose()


class _Relay:
    """The agents that have joined, the clients that wait, and the number of connections."""

    def __init__(self, tokens: Tokens, connections_max: int) -> None:
        self._tokens = tokens
        self._connections_max = connections_max
        self._serving: set[asyncio.Task[None]] = set()
        self._agents: list[_Agent] = []
        self._asked: dict[str, _Asked] = {}

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one more connection."""
        stream = Stream(reader, writer)
        if len(self._serving) >= 2 * self._connections_max:
            stream.reset()
            return
        task = asyncio.create_task(self._handle_connection(stream))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def aclose(self) -> None:
        """End all connections."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _handle_connection(self, stream: Stream) -> None:
        """Handle one connection, from its head to its end. An error ends only this connection."""
        try:
            stream.prepare()
            await self._serve(stream)
        except NotRelayed as refusal:
            stream.writer.write(answer(refusal.status, refusal.reason))
            await stream.end()
        except (OSError, NotUnderstood) as error:
            _log.debug("a connection ended: %s", error)
        finally:
            stream.reset()

    async def _serve(self, stream: Stream) -> None:
        head = await self._head(stream)
        if len(self._serving) > self._connections_max:
            raise NotRelayed(503, f"there are {self._connections_max} connections already (--connections-max)")
        match head.verb:
            case "CONNECT":
                await self._connect(head, stream)
            case "JOIN":
                await self._join(head, stream)
            case "ACCEPT":
                await self._bring(head, stream)
            case _:
                raise NotRelayed(405, "this is a relay of Isthmus")

    async def _head(self, stream: Stream) -> Head:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = Head.parse(await stream.reader.readuntil(END_OF_HEAD))
        except asyncio.IncompleteReadError as error:
            raise NotUnderstood("it hung up") from error
        except (asyncio.LimitOverrunError, NotUnderstood):
            raise NotRelayed(400, "this is a relay of Isthmus") from None
        if not self._tokens.accept(head.token):
            _log.warning("a connection as %s has another token", head.side[:_NAME_LENGTH_MAX] or "nobody")
            raise NotRelayed(407, "another token is needed")
        return head

    async def _join(self, head: Head, stream: Stream) -> None:
        """Read the messages of an agent for as long as it is there. The agent that joined last is asked first."""
        if not head.side:
            raise NotRelayed(400, "a side needs a name")
        agent = _Agent(head.side, stream)
        stream.writer.write(answer(200, "joined"))
        self._agents.insert(0, agent)
        _log.info("%s has joined", agent.side)
        try:
            while True:
                self._hear(agent, await read_line(stream.reader))
                await stream.writer.drain()
        except (OSError, NotUnderstood) as error:
            _log.info("%s has left: %s", agent.side, error)
        finally:
            self._agents.remove(agent)
            for ticket, asked in self._asked.items():
                if asked.agent is agent:
                    self._fail(ticket, f"{agent.side} has left")

    def _hear(self, agent: _Agent, message: dict[str, object]) -> None:
        match message:
            case {"brokers": list(brokers)}:
                agent.brokers = frozenset(map(str, brokers[:_BROKERS_MAX]))
                agent.stream.writer.write(line())
            case {"failed": str(ticket), "reason": str(reason)}:
                asked = self._asked.get(ticket)
                if asked is not None and asked.agent is agent:
                    self._fail(ticket, reason)

    def _fail(self, ticket: str, reason: str) -> None:
        brought = self._asked[ticket].brought
        if not brought.done():
            brought.set_exception(NotRelayed(502, reason))

    async def _connect(self, head: Head, stream: Stream) -> None:
        """Have the agent of a side bring the broker's end, and pass bytes between the two."""
        broker = head.what.lower()
        ticket, asked = secrets.token_urlsafe(16), _Asked(self._agent(head.side, broker), self._future())
        self._asked[ticket] = asked
        try:
            asked.agent.stream.writer.write(line(open=ticket, broker=broker))
            try:
                async with asyncio.timeout(OPENING_S):
                    far = await asked.brought
            except TimeoutError:
                raise NotRelayed(504, f"{head.side} does not get there within {OPENING_S:g} s") from None
            stream.writer.write(answer(200, "connected"))
            await pass_between(stream, far)
        finally:
            del self._asked[ticket]
            asked.passed.set()

    async def _bring(self, head: Head, stream: Stream) -> None:
        """Hand over the broker's end to the client that waits; that client passes it on."""
        asked = self._asked.get(head.what)
        if asked is None or asked.brought.done():
            raise NotRelayed(404, "no client waits for this any more")
        asked.brought.set_result(stream)
        await asked.passed.wait()

    def _agent(self, side: str, broker: str) -> _Agent:
        agents = [agent for agent in self._agents if agent.side == side]
        if not agents:
            raise NotRelayed(404, f"no side has joined as {side[:_NAME_LENGTH_MAX]}")
        for agent in agents:
            if broker in agent.brokers:
                return agent
        raise NotRelayed(404, f"{side} knows no such broker")

    @staticmethod
    def _future() -> asyncio.Future[Stream]:
        future: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        # The client may have gone before it fails.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future
