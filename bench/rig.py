"""Two single-broker clusters, looked at through an independent client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.cases import Far
from bench.contenders import Copy
from bench.pouring import Pour, pour
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from testing.brokers.proxy import HOST, Proxy, behind_proxy

HEAP_MB: Final = 1024
DELAY_S: Final = 0.025
"""How long every byte to or from a side that is far takes."""
_TERM_S: Final = 30.0
_PROPERTIES: Final = {
    # Topics of earlier runs shall leave the disk soon.
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.enable": "true",
}


class Side:
    """One of the two clusters."""

    def __init__(self, local: LocalCluster, proxy: Proxy) -> None:
        self.local = local
        self.bootstrap_servers = local.bootstrap_servers
        self._far_servers = f"{HOST}:{proxy.port}"
        self._known: set[str] = set()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def cluster(self) -> Cluster:
        return self.local.cluster()

    def servers(self, *, is_far: bool) -> str:
        """The bootstrap servers of a copier, which reaches the cluster directly or from far away."""
        return self._far_servers if is_far else self.bootstrap_servers

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it can be written to.

        :raises KafkaException: The broker refused.
        """
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
        self._wait(lambda: self._has(topic), f"{topic} was not created")
        # Metadata is ahead of the leaders, which refuse for a moment yet.
        self._wait(lambda: self._offsets(topic, partitions) is not None, f"{topic} has no leaders")

    def commit(self, group: str, topic: str, partitions: int) -> None:
        """Have a group stand in the middle of every partition.

        :raises KafkaException: The broker refused.
        """
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        middles = [TopicPartition(topic, number, end // 2) for number, end in enumerate(self.ends(topic, partitions))]
        try:
            consumer.commit(offsets=middles, asynchronous=False)
        finally:
            consumer.close()

    def drop(self, topics: Sequence[str]) -> None:
        """Delete the topics that exist among these."""
        self._known.difference_update(topics)
        there = [topic for topic in topics if self._has(topic)]
        if there:
            for future in self._admin.delete_topics(there).values():
                future.result()
            self._wait(lambda: not any(self._has(topic) for topic in there), f"{there} were not deleted")

    def topics(self) -> list[str]:
        """All topics, those of Kafka itself left out."""
        return [name for name in self._admin.list_topics(timeout=_TERM_S).topics if not name.startswith("__consumer")]

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The end offset of every partition; zeros while the topic does not exist."""
        # Asked for a topic that is not there yet, librdkafka remembers for long that it is unknown.
        if topic not in self._known and not self._has(topic):
            return [0] * partitions
        self._known.add(topic)
        return self._offsets(topic, partitions) or [0] * partitions

    def fill(self, task: Pour) -> None:
        """Create a topic and pour records into it."""
        self.create(task.topic, task.partitions)
        asyncio.run(pour(task))

    def _offsets(self, topic: str, partitions: int) -> list[int] | None:
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        try:
            answers = self._admin.list_offsets(asked, request_timeout=_TERM_S)
            return [answers[partition].result().offset for partition in asked]
        except KafkaException:
            return None

    def _has(self, topic: str) -> bool:
        return topic in self._admin.list_topics(timeout=_TERM_S).topics

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _TERM_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.05)


class Rig:
    """The source and the target everything runs between."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target

    @classmethod
    @contextmanager
    def up(cls) -> Iterator[Self]:
        """Start both clusters and end them with the block."""
        with (
            behind_proxy("bench-a", delay_s=DELAY_S, heap_mb=HEAP_MB, fast_start=False, properties=_PROPERTIES) as a,
            behind_proxy("bench-b", delay_s=DELAY_S, heap_mb=HEAP_MB, fast_start=False, properties=_PROPERTIES) as b,
        ):
            yield cls(Side(*a), Side(*b))

    def copy(self, *fillings: Pour, label: str, folder: Path, far: Far = "") -> Copy:
        """A copy to be made from the source to the target, one of which may be far away."""
        return Copy(
            fillings=fillings,
            source_servers=self.source.servers(is_far=far == "source"),
            target_servers=self.target.servers(is_far=far == "target"),
            label=label,
            folder=folder,
        )
