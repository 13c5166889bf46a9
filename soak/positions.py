"""Where consumer groups stand, on either side, as librdkafka tells."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from soak.judge.evidence import PartitionKey

Positions = dict[str, dict[PartitionKey, int]]


class Surveyor:
    """Asks one cluster, again and again."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0, "socket.timeout.ms": 10_000})

    def positions(self, groups: Iterable[str], *, term_s: float = 10.0) -> Positions:
        """The committed offsets of groups; those that nobody can tell now are left out."""
        found: Positions = {}
        # librdkafka takes one group a call.
        for group in groups:
            try:
                (future,) = self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=term_s
                ).values()
                told = future.result(term_s).topic_partitions
            except (KafkaException, TimeoutError):
                continue
            if not any(each.error for each in told):
                found[group] = {(each.topic, each.partition): each.offset for each in told if each.offset >= 0}
        return found
