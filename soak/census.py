"""Which records consumers have seen on every cluster, as they come: when to go on, and not by what to judge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from soak.content import identity_of
from soak.judge.evidence import PartitionKey
from soak.side import Side

_AT_ONCE: Final = 2_000
_LOOK_S: Final = 0.2


class Census:
    """The ids of all committed records of some partitions, by cluster; of those alone that are `wanted` there."""

    def __init__(
        self,
        leaves: Sequence[Side],
        keys: Sequence[PartitionKey],
        wanted: Callable[[Side, Message], bool] = lambda _side, _message: True,
    ) -> None:
        self._keys = keys
        self._wanted = wanted
        self._over = threading.Event()
        self.ids: Mapping[str, set[str]] = {leaf.name: set() for leaf in leaves}
        self._threads = [
            threading.Thread(target=self._run, args=(leaf,), name=f"census-{leaf.name}") for leaf in leaves
        ]

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Read along."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    @property
    def counts(self) -> dict[str, int]:
        """How many records each cluster has."""
        return {leaf: len(ids) for leaf, ids in self.ids.items()}

    def has_met(self) -> bool:
        """Whether every cluster has some of every other one: ids begin with the cluster where they were written."""
        return all({identity[:1] for identity in ids.copy()} >= self.ids.keys() for ids in self.ids.values())

    def seen_anywhere(self) -> set[str]:
        """All that any cluster has."""
        return set[str]().union(*(ids.copy() for ids in self.ids.values()))

    def _run(self, leaf: Side) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": leaf.servers,
                "group.id": "census",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(leaf.names.called(topic), partition, 0) for topic, partition in self._keys])
        try:
            while not self._over.is_set():
                # A cluster that is away is told of as an error, and comes back.
                for message in consumer.consume(_AT_ONCE, timeout=_LOOK_S):
                    if message.error() is None and self._wanted(leaf, message):
                        headers: list[tuple[str, bytes | None]] = list(message.headers() or [])  # type: ignore[arg-type]
                        self.ids[leaf.name].add(identity_of(headers) or "")
        finally:
            consumer.close()
