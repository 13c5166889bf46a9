"""Topics that a broker's log cleaner has compacted."""

from __future__ import annotations

import time
from typing import Final

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import SEPTEMBER, Given

SEGMENT_MS: Final = 1000


class Compacted:
    """A compacted source that is written in rounds, each a segment of its own for the timestamps of its records."""

    def __init__(self, cluster: LocalCluster, name: str, *, begin: int = SEPTEMBER) -> None:
        self.cluster, self.name = cluster, name
        self.now = begin
        topics.create(
            cluster,
            name,
            cleanup_policy="compact",
            segment_ms=SEGMENT_MS,
            min_cleanable_dirty_ratio=0.001,
            delete_retention_ms=0,
        )

    def stamped(self, keys: list[bytes]) -> list[Given]:
        """Records with these keys in a new segment."""
        self.now += 2 * SEGMENT_MS
        return [Given(key, b"value of %s at %d" % (key, self.now), [("h", key)], self.now) for key in keys]

    def write(self, keys: list[bytes], **settings: object) -> None:
        """One batch in a segment of its own."""
        writing = topics.producer(self.cluster, **settings)
        topics.send(writing, self.name, self.stamped(keys))
        topics.flush(writing)

    def await_cleaning(self, records_left: int) -> None:
        """Wait until the cleaner has left no more than that many records."""
        deadline = time.monotonic() + TERM_S
        while True:
            seen = oracle.records(self.cluster.bootstrap_servers, self.name, "read_uncommitted")[0]
            if len(seen) <= records_left:
                return
            assert time.monotonic() < deadline, f"{len(seen)} records are left"
            time.sleep(0.2)

    def stored(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and record count of every batch, as Kafka's own tool reads them off the disk."""
        return oracle.batches(self.cluster, self.name)


def keys(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{n}".encode() for n in range(count)]
