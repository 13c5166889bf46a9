"""Watches the registry: ZooKeeper reports changes of nodes, without polling."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from isthmus.errors import Unreachable
from isthmus.kafka.zookeeper.connection import SESSION_S, open_session
from isthmus.kafka.zookeeper.reading import read_nodes, registry_paths
from isthmus.kafka.zookeeper.znodes import BROKERS, TOPICS, partitions_path, registry_of
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.registry import Registry

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_GATHER_S: Final = 0.05
"""Changes come in groups: when a broker stops, all partitions it led get new states."""
_AWAY_S: Final = SESSION_S
"""How long ZooKeeper may be away: it does not keep a session for longer either."""
_HEED_S: Final = 1.0
"""The longest delay until the end of the caller's interest is noticed."""


class _Event(enum.Enum):
    CHANGED = enum.auto()
    AWAY = enum.auto()
    BACK = enum.auto()
    LOST = enum.auto()


def watched_registry(cluster: Cluster, over: threading.Event) -> Generator[Registry, None, None]:
    """Yield the registry now, and again after each change, until it is `over`. Blocking.

    :raises HostError: kazoo is not installed.
    :raises ClusterError: ZooKeeper does not answer, forbids it, holds no Kafka cluster, or ended the session.
    """
    with open_session(cluster) as client:
        watch = _Watch(client, cluster)
        registry = watch.look()
        yield registry
        while watch.wait(over):
            after = watch.look()
            if after != registry:
                registry = after
                yield registry


class _Watch:
    """Watches every node of the registry, including later ones."""

    def __init__(self, client: KazooClient, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._watched: set[str] = set()
        client.add_listener(self._on_session)
        for path in (BROKERS, TOPICS):
            client.ChildrenWatch(path, self._on_change)

    def look(self) -> Registry:
        """Read the registry, and set watches on all its nodes."""
        paths = registry_paths(self._client)
        registry = registry_of(read_nodes(self._client, paths))
        # A change before the watch is set is not lost: a new watch calls back at once.
        for path in sorted({*paths} - self._watched):
            self._client.DataWatch(path, self._on_change)
        for path in sorted({partitions_path(topic) for topic, _ in registry.partitions} - self._watched):
            self._client.ChildrenWatch(path, self._on_change)
            self._watched.add(path)
        self._watched.update(paths)
        return registry

    def wait(self, over: threading.Event) -> bool:
        """Wait for a change, and a moment for related ones. Return whether there was one before it was `over`.

        :raises Unreachable: ZooKeeper went away, or ended the session: changes may have been missed.
        """
        until: float | None = None
        is_away = False
        while not over.is_set():
            try:
                event = self._events.get(timeout=_HEED_S if until is None else max(until - time.monotonic(), 0))
            except queue.Empty:
                if until is None:
                    continue
                if is_away:
                    raise self._lost_error() from None
                return True
            now = time.monotonic()
            match event:
                case _Event.LOST:
                    raise self._lost_error()
                case _Event.AWAY:
                    is_away, until = True, now + _AWAY_S
                case _Event.BACK:
                    is_away, until = False, now + _GATHER_S
                case _Event.CHANGED:
                    until = until or now + _GATHER_S
        return False

    def _lost_error(self) -> Unreachable:
        return Unreachable(
            f"the session with the ZooKeeper of {self._cluster.alias} was lost",
            cluster=self._cluster.alias,
            hint="Call it again when ZooKeeper is back.",
        )

    def _on_change(self, *_: Any) -> None:
        self._events.put(_Event.CHANGED)

    def _on_session(self, state: str) -> None:
        from kazoo.client import KazooState

        known = {KazooState.LOST: _Event.LOST, KazooState.SUSPENDED: _Event.AWAY, KazooState.CONNECTED: _Event.BACK}
        self._events.put(known[state])
