"""The network between a mirror and one broker: it reads which requests pass, and can be aimed at some of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from testing.brokers.proxy import HOST, Link, Proxy

_SIZE_BYTES: Final = 4
_REQUEST_BYTES: Final = 8
"""Of a request: API key, API version (two bytes each) and correlation id. Of an answer: the correlation id alone."""
_ANSWER_BYTES: Final = 4


@dataclass(slots=True, eq=False)
class Aim:
    """What is done to the requests of some APIs (Kafka's numbers): held up before they arrive, or answered to nobody.

    Each is hit with a probability of `chance`; `hits` counts them.
    """

    apis: frozenset[int]
    chance: float = 1.0
    hold_s: float = 0.0
    is_answer_lost: bool = False
    hits: int = 0


@dataclass(slots=True)
class Road:
    """What a network is like: delays, stalls as lost packets cause them, a limit."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    stall_chance: float = 0.0
    stall_s: float = 0.0
    bytes_per_s: float = 0.0


class Network(Proxy):
    """A proxy of one broker that knows frames. It changes no byte of them."""

    def __init__(self, port: int, upstream_port: int, *, seed: int = 0) -> None:
        super().__init__(port, upstream_port)
        self.road = Road()
        self._aims: list[Aim] = []
        self._chance = random.Random(seed)
        self._talks: dict[Link, _Talk] = {}

    @contextmanager
    def aimed(self, aim: Aim) -> Iterator[None]:
        """Have an aim for a while."""
        self._aims = [*self._aims, aim]
        try:
            yield
        finally:
            self._aims = [each for each in self._aims if each is not aim]

    def reset_all(self) -> None:
        """Reset every connection there is."""
        self._do(self._reset_all)

    def move(self, port: int) -> None:
        """Listen on another port from now on, and reset what came by the one before."""

        async def move() -> None:
            self._server.close()
            self._reset_all()
            await self._server.wait_closed()
            self._server = await asyncio.start_server(self._accept, HOST, port)

        asyncio.run_coroutine_threadsafe(move(), self._loop).result()
        self.port = port

    def _reset_all(self) -> None:
        for link in list(self._links):
            link.reset()

    def delay(self) -> float:
        return self.road.delay_s + self._chance.uniform(0.0, self.road.jitter_s)

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        await self._travel(len(chunk))
        talk = self._talks.setdefault(link, _Talk())
        admitted = await super().admitted(link, chunk, is_answer=is_answer)
        if is_answer:
            lost_from = self._first_lost(talk, chunk)
            return admitted if lost_from is None else min(admitted, lost_from)
        hold_s = max((self._held_s(api) for api in talk.requests(chunk)), default=0.0)
        if hold_s:
            await asyncio.sleep(hold_s)
        return admitted

    def left(self, link: Link) -> None:
        self._talks.pop(link, None)

    async def _travel(self, size: int) -> None:
        road = self.road
        if road.stall_chance and self._chance.random() < road.stall_chance:
            await asyncio.sleep(self._chance.uniform(0.2, 1.0) * road.stall_s)
        if road.bytes_per_s:
            await asyncio.sleep(size / road.bytes_per_s)

    def _held_s(self, api: int) -> float:
        return max((aim.hold_s for aim in self._aims if not aim.is_answer_lost and self._hits(aim, api)), default=0.0)

    def _first_lost(self, talk: _Talk, chunk: bytes) -> int | None:
        """Where in a chunk an answer begins that is to be lost."""
        for begin, api in talk.answers(chunk):
            if any(aim.is_answer_lost and self._hits(aim, api) for aim in self._aims):
                return begin
        return None

    def _hits(self, aim: Aim, api: int) -> bool:
        hit = api in aim.apis and self._chance.random() < aim.chance
        aim.hits += hit
        return hit


class _Talk:
    """What is being said on one connection."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}
        self._requests = _Frames(_REQUEST_BYTES)
        self._answers = _Frames(_ANSWER_BYTES)

    def requests(self, chunk: bytes) -> list[int]:
        """The APIs of the requests whose header ends in this chunk."""
        apis = []
        for _, header in self._requests.feed(chunk):
            api = int.from_bytes(header[:2], "big")
            self._asked[int.from_bytes(header[4:8], "big")] = api
            apis.append(api)
        return apis

    def answers(self, chunk: bytes) -> list[tuple[int, int]]:
        """Of the answers whose header ends in this chunk: where in it they begin, and the API that was asked."""
        found = self._answers.feed(chunk)
        return [(max(begin, 0), self._asked.pop(int.from_bytes(header, "big"), -1)) for begin, header in found]


@dataclass(slots=True)
class _Frames:
    """Walks over frames, of which the first bytes are looked at."""

    header_bytes: int
    _head: bytearray = field(default_factory=bytearray)
    _rest: int = 0

    def feed(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """The headers that end in this chunk, each with where its frame begins (less than 0: in an earlier one)."""
        found, at, wanted = [], 0, _SIZE_BYTES + self.header_bytes
        while at < len(chunk):
            if self._rest:
                step = min(self._rest, len(chunk) - at)
                self._rest -= step
                at += step
                continue
            piece = chunk[at : at + wanted - len(self._head)]
            self._head += piece
            at += len(piece)
            if len(self._head) == wanted:
                found.append((at - wanted, bytes(self._head[_SIZE_BYTES:])))
                self._rest = int.from_bytes(self._head[:_SIZE_BYTES], "big") - self.header_bytes
                self._head.clear()
        return found
