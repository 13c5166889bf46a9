"""Where consumer groups stand, on either side, as librdkafka tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from soak.judge.evidence import PartitionKey
from soak.side import Side

Positions = dict[str, dict[PartitionKey, int]]


class Surveyor:
    """Asks one cluster, again and again.

    A consumer of each group asks, which never joins it: librdkafka's admin client (2.16) ends the whole process with a
    segmentation fault where a coordinator is not there.
    """

    def __init__(self, side: Side) -> None:
        self._servers, self._names = side.servers, side.names
        self._consumers: dict[str, Consumer] = {}

    def positions(self, groups: Iterable[str], keys: Collection[PartitionKey], *, term_s: float = 10.0) -> Positions:
        """The committed offsets of groups in some partitions; groups of which nobody can tell now are left out."""
        found: Positions = {}
        asked = [TopicPartition(self._names.called(topic), number) for topic, number in sorted(keys)]
        for group in groups:
            try:
                told = self._consumer(group).committed(asked, timeout=term_s)
            except KafkaException:
                continue
            if not any(each.error for each in told):
                found[group] = {
                    (self._names.at_source(each.topic), each.partition): each.offset
                    for each in told
                    if each.offset >= 0
                }
        return found

    def close(self) -> None:
        """Ask no more."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = Consumer(
                {
                    "bootstrap.servers": self._servers,
                    "group.id": group,
                    "client.id": "surveyor",
                    "enable.auto.commit": False,
                    # Commits that are still pending are none.
                    "isolation.level": "read_uncommitted",
                    "log_level": 0,
                }
            )
        return self._consumers[group]
