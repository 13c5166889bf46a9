"""An address that leads into another cluster at some moment, as when it was given away and is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import Cluster
from testing.brokers.proxy import HOST, Proxy

_NODE: Final = 1


class MovingAddress(Proxy):
    """The address of a broker of `before`, until it is moved."""

    def __init__(self, port: int, before: LocalCluster) -> None:
        super().__init__(port, before.broker(_NODE).port)
        self._home = self._to = before
        self.cluster: Cluster = replace(
            before.cluster(), addresses=tuple((each, f"{HOST}:{port}") for each in before.bootstrap_servers.split(","))
        )

    async def destination(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        return HOST, self._to.broker(_NODE).port

    def move(self, to: LocalCluster) -> None:
        """Lead into another cluster from now on; connections that are there break."""

        def turn() -> None:
            self._to = to
            for link in list(self._links):
                link.reset()

        self._do(turn)

    def return_home(self) -> None:
        """Lead where it led at first."""
        self.move(self._home)


@contextmanager
def moving_address(before: LocalCluster) -> Iterator[MovingAddress]:
    """The address of a cluster of one broker."""
    (port,) = free_ports(1)
    with MovingAddress(port, before) as address:
        yield address
