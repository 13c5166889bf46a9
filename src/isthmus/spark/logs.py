"""Logs of several clusters, read in a Spark task without asyncio showing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Self

from isthmus.cluster.reading import LogReader, OffsetRange, StoredBatch
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.copyflags import is_done_with
from isthmus.wire.client import Client


def known(clusters: Mapping[str, Cluster], alias: str) -> Cluster:
    """The cluster of that alias.

    :raises ConfigError: There is none.
    """
    if alias not in clusters:
        raise ConfigError(
            f"no cluster {alias!r} is registered with this data source",
            hint=f"Set the option cluster to one of {', '.join(clusters) or 'those registered'}.",
        )
    return clusters[alias]


class Logs:
    """The logs of several clusters, read one range after the other, without asyncio showing.

    `levels` are those of the distributors that copy from a cluster, by its alias: what they leave alone, because it was
    distributed at their level or below, is told as what consumers skip.
    """

    def __init__(self, clusters: Mapping[str, Cluster], levels: Mapping[str, int] = MappingProxyType({})) -> None:
        self._clusters = clusters
        self._levels = levels
        self._loop = asyncio.new_event_loop()
        self._clients: dict[str, Client] = {}
        self._readers: dict[str, LogReader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            self._loop.run_until_complete(client.aclose())
        self._loop.close()

    def read(self, alias: str, span: OffsetRange) -> Iterator[list[StoredBatch]]:
        """As `LogReader.read`."""
        if alias not in self._readers:
            self._clients[alias] = Client(known(self._clusters, alias))
            self._readers[alias] = LogReader(self._clients[alias])
        level = self._levels.get(alias, 0)
        stream = self._readers[alias].read(span)
        try:
            while True:
                try:
                    found = self._loop.run_until_complete(anext(stream))
                except StopAsyncIteration:
                    return
                yield [_judged(item, level) for item in found] if level else found
        finally:
            self._loop.run_until_complete(stream.aclose())


def _judged(item: StoredBatch, level: int) -> StoredBatch:
    return item._replace(is_aborted=item.is_aborted or is_done_with(item.batch.producer_id, level))
