"""A consumer that reads the target all the while, so that what was once there is known."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from soak.judge.evidence import Lane, PartitionKey
from soak.judge.reading import Ruler, seen
from soak.naming import Names

_LOOK_S: Final = 0.5
_NEW_S: Final = 4.0
_AT_ONCE: Final = 2_000


class Tee:
    """Reads all partitions of the topics of a run, as uncommitted data, and keeps a digest of each record."""

    def __init__(self, servers: str, names: Names) -> None:
        self._servers = servers
        self._names = names
        self._read: dict[PartitionKey, dict[int, bytes]] = defaultdict(dict)
        self._over = threading.Event()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read while the block lasts."""
        thread = threading.Thread(target=self._run, name="tee", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def contradictions(self, lane: Lane) -> list[int]:
        """Offsets at which another record was read than stands there now, or one stands no more. What was deleted or
        cleaned since is left out.
        """
        now = {record.offset: record.content for record in lane.target.records}
        return sorted(
            offset
            for offset, content in self._read.get((lane.topic, lane.partition), {}).items()
            if offset >= lane.target.start
            and now.get(offset) != content
            and not (lane.is_compacted and offset not in now)
        )

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "tee",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 5_000,
                "log_level": 0,
            }
        )
        ruler, known, looked_at = Ruler(self._servers, self._names), set[PartitionKey](), 0.0
        while not self._over.is_set():
            if time.monotonic() - looked_at > _NEW_S:
                looked_at = time.monotonic()
                with suppress(KafkaException):
                    new = set(ruler.partitions(term_s=_NEW_S)) - known
                    consumer.incremental_assign([TopicPartition(self._names.called(t), n, 0) for t, n in new])
                    known |= new
            for message in consumer.consume(_AT_ONCE, timeout=_LOOK_S):
                if message.error() is None:
                    record = seen(message)
                    key = (self._names.at_source(message.topic() or ""), message.partition() or 0)
                    self._read[key][record.offset] = record.content
        consumer.close()
