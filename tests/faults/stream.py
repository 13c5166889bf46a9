"""Records with ids of their own that keep coming, whatever happens to the cluster they are written to."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.runs.mirror import Reports

DAY_MS: Final = 86_400_000
_PAUSE_S: Final = 0.01
_FLUSH_S: Final = 60.0


class Stream:
    """Writes to all partitions of some topics in turn. The value of a record is its number in its partition.

    `ages_ms` are the topics, each with how old its records claim to be. While brokers of the source fail a record may
    stand there twice: leaders forget a producer whose records are old, and librdkafka begins a new epoch when one does
    not know it, which undoes the idempotence of all that it has in flight (its issue 4953). What stands there once it
    is all written is what has to be copied.
    """

    def __init__(
        self, cluster: LocalCluster, ages_ms: Mapping[str, int], *, partitions: int = 1, records_per_s: float = 300.0
    ) -> None:
        self.cluster = cluster
        self.ages_ms = dict(ages_ms)
        self.partitions = partitions
        self.sent: dict[tuple[str, int], int] = defaultdict(int)
        self.delivered = 0
        self.failures: list[str] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._records_per_s = records_per_s
        self._over = threading.Event()

    @contextmanager
    def flowing(self) -> Iterator[Stream]:
        """Keep producing; when this ends every record is durable at the source. It may flow again."""
        self._over.clear()
        thread = threading.Thread(target=self._produce, name="stream")
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()
        servers = self.cluster.admin_bootstrap_servers
        self._ends = {place: oracle.ends(servers, *place).high for place in self.sent}

    def _produce(self) -> None:
        producer = topics.producer(
            self.cluster,
            linger_ms=5,
            enable_idempotence=True,
            message_timeout_ms=180_000,
            # A frozen broker shall hold the stream up no longer than it holds up the cluster.
            request_timeout_ms=5_000,
            socket_timeout_ms=6_000,
            topic_metadata_refresh_interval_ms=1_000,
            reconnect_backoff_max_ms=500,
        )
        places = [(name, partition) for name in self.ages_ms for partition in range(self.partitions)]
        begun, count = time.monotonic(), 0
        while not self._over.is_set():
            while count < (time.monotonic() - begun) * self._records_per_s:
                name, partition = place = places[count % len(places)]
                producer.produce(
                    name,
                    partition=partition,
                    value=b"%d" % self.sent[place],
                    timestamp=int(time.time() * 1000) - self.ages_ms[name],
                    on_delivery=self._on_delivery,
                )
                self.sent[place] += 1
                count += 1
            producer.poll(_PAUSE_S)
        producer.flush(_FLUSH_S)

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failures.append(str(error))

    def is_copied(self, reports: Reports) -> bool:
        """Whether all that stands at the source is at the target, as the lanes say. Asked when the stream has ended."""
        assert self._ends
        return all(
            reports[LaneKey(TargetTopic(name), partition)].position >= end
            for (name, partition), end in self._ends.items()
        )

    def assert_mirrored(self, target: LocalCluster) -> None:
        """Every record stands at the source, and both logs are the same."""
        assert not self.failures, self.failures[:3]
        assert self.delivered == sum(self.sent.values()) > 0
        for name in self.ages_ms:
            servers = self.cluster.admin_bootstrap_servers
            seen = oracle.records(servers, name, "read_uncommitted", partitions=self.partitions)
            for partition, records in enumerate(seen):
                missing = {b"%d" % number for number in range(self.sent[name, partition])}
                missing.difference_update(record.value for record in records)
                assert not missing, f"{name}-{partition} at the source lacks {sorted(missing)[:3]}"
            oracle.assert_same(self.cluster, target, name, partitions=self.partitions, isolations=["read_uncommitted"])
