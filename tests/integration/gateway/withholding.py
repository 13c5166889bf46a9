"""A way from clients to a gateway on which requests of one kind are withheld for a while."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from testing.brokers.proxy import Link, Proxy
from testing.gateways.gateways import Running, gateway
from testing.patience import TERM_S

_HEAD: Final = struct.Struct(">ih")
_SIZE_BYTES: Final = 4
_PULSE_S: Final = 0.01


class Withholding(Proxy):
    """Has requests of a kind wait, and what stands behind them in their connection, until they are let go."""

    def __init__(self, port: int, upstream_port: int) -> None:
        super().__init__(port, upstream_port)
        self._key: int | None = None
        self._met = threading.Event()
        self._came: dict[Link, bytearray] = {}

    def withhold(self, key: int) -> None:
        """From now on requests of this kind wait."""
        self._met.clear()
        self._key = key

    def await_met(self) -> None:
        """Wait until one does."""
        assert self._met.wait(TERM_S)

    def let_go(self) -> None:
        """Nothing waits any more."""
        self._key = None

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        if not is_answer:
            came = self._came.setdefault(link, bytearray())
            came += chunk
            for key in _begun(came):
                while key == self._key:
                    self._met.set()
                    await asyncio.sleep(_PULSE_S)
        return await super().admitted(link, chunk, is_answer=is_answer)

    def left(self, link: Link) -> None:
        self._came.pop(link, None)


def _begun(came: bytearray) -> Iterator[int]:
    """The kinds of the requests of which the beginning came; what is left is that of the next one."""
    while len(came) >= _HEAD.size:
        size, key = _HEAD.unpack_from(came)
        yield key
        if len(came) < _SIZE_BYTES + size:
            return
        del came[: _SIZE_BYTES + size]


@contextmanager
def withholding(cluster: LocalCluster, configuration: Configuration) -> Iterator[tuple[Running, Withholding]]:
    """A gateway before a cluster of one broker that clients reach by this way alone, at the port of the way."""
    (port,) = free_ports(1)
    with (
        gateway(cluster.cluster(), configuration=configuration, advertised=port) as running,
        Withholding(port, running.port) as way,
    ):
        yield replace(running, port=port), way
