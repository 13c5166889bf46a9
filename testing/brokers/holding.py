"""A proxy that stops the world at a request: a process behind it is killed exactly there."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from isthmus.local import LocalCluster
from testing.brokers.proxy import Link, Proxy, start_proxied
from testing.patience import TERM_S

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
END_TXN: Final = 26
_HEAD: Final = struct.Struct(">ih")
_PULSE_S: Final = 0.01


class Hold:
    """The `nth` request of a kind from now on, that has some bytes in it, or the answer to it. Until it is released
    nothing more passes on its connection in that direction.
    """

    def __init__(self, api_key: int, nth: int, contents: bytes, *, is_answer: bool) -> None:
        self.api_key, self.left, self.contents, self.is_answer = api_key, nth, contents, is_answer
        self._reached, self._released = threading.Event(), threading.Event()

    def is_met(self, api_key: int, chunk: bytes) -> bool:
        """Whether a request, of which this is the beginning, is the one."""
        if api_key != self.api_key or self.contents not in chunk:
            return False
        self.left -= 1
        return self.left == 0

    async def wait(self) -> None:
        self._reached.set()
        while not self._released.is_set():
            await asyncio.sleep(_PULSE_S)

    def wait_until_reached(self) -> None:
        """Return once the request has come, and is held."""
        assert self._reached.wait(TERM_S), "the request did not come"

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def release(self) -> None:
        """Let it pass, and all that waits behind it."""
        self._released.set()


class HoldingProxy(Proxy):
    """A network that holds back single requests or answers."""

    def __init__(self, port: int, upstream_port: int) -> None:
        super().__init__(port, upstream_port)
        self._holds: list[Hold] = []
        self._rest: dict[Link, tuple[int, bytes]] = {}
        self._answers: dict[Link, Hold] = {}

    def hold(self, api_key: int, *, nth: int = 1, contents: bytes = b"", is_answer: bool = False) -> Hold:
        """Hold back a request that is still to come, or its answer."""
        hold = Hold(api_key, nth, contents, is_answer=is_answer)
        self._holds.append(hold)
        return hold

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        if is_answer:
            if (hold := self._answers.pop(link, None)) is not None:
                await hold.wait()
            return len(chunk)
        for api_key, part in self._requests(link, chunk):
            for hold in [each for each in self._holds if each.is_met(api_key, part)]:
                self._holds.remove(hold)
                if hold.is_answer:
                    self._answers[link] = hold
                else:
                    await hold.wait()
        return len(chunk)

    def _requests(self, link: Link, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """The requests that begin in what arrived, as far as they have arrived."""
        left, head = self._rest.pop(link, (0, b""))
        data = head + chunk[left:]
        left = max(left - len(chunk), 0)
        while len(data) >= _HEAD.size:
            size, api_key = _HEAD.unpack_from(data)
            yield api_key, data[: size + 4]
            left, data = max(size + 4 - len(data), 0), data[size + 4 :]
        self._rest[link] = left, data

    def left(self, link: Link) -> None:
        self._rest.pop(link, None)
        self._answers.pop(link, None)


@contextmanager
def behind_holds(name: str) -> Iterator[tuple[LocalCluster, HoldingProxy, str]]:
    """A cluster of one broker, the proxy before it, and the address at which clients are behind the proxy."""
    cluster, port, proxied = start_proxied(name)
    with cluster, HoldingProxy(port, proxied) as proxy:
        yield cluster, proxy, f"127.0.0.1:{port}"
