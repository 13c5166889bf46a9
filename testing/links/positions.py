"""Where a group stands on one cluster of a tree, and where it is to stand on another one; and its consumer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import oracle

PARTITIONS: Final = 2


def committed(cluster: LocalCluster, group: str, name: str) -> dict[int, tuple[int, str]]:
    """Where a group stands by partition, and what stands beside it, as librdkafka is told."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(name, p) for p in range(PARTITIONS)])
    consumers.await_coordinator(cluster.admin_bootstrap_servers, group)
    (future,) = admin.list_consumer_group_offsets([asked]).values()
    found = future.result(TERM_S).topic_partitions
    return {p.partition: (p.offset, p.metadata or "") for p in found if p.error is None and p.offset >= 0}


def to_be_at(source: LocalCluster, target: LocalCluster, group: str, name: str, margin_ms: int) -> dict[int, int]:
    """The first message at the target that is not older than the one at the source's position, less the margin."""
    looking = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": f"{group}-looking"})
    try:
        wanted = {}
        logs = oracle.records(source.bootstrap_servers, name, partitions=PARTITIONS)
        for partition, (offset, _) in committed(source, group, name).items():
            log = [record for record in logs[partition] if record.offset >= offset] or logs[partition][-1:]
            at = TopicPartition(name, partition, log[0].timestamp[1] - margin_ms)
            wanted[partition] = looking.offsets_for_times([at], timeout=TERM_S)[0].offset
        return wanted
    finally:
        looking.close()


def has_followed(cluster: LocalCluster, group: str, name: str, wanted: Mapping[int, int]) -> bool:
    """Whether a group stands where it is to be, or further on."""
    time.sleep(0.2)
    found = committed(cluster, group, name)
    return all(partition in found and found[partition][0] >= offset for partition, offset in wanted.items())


def consume(cluster: LocalCluster, group: str, count: int, seen: Counter[tuple[int, str, int]]) -> None:
    """Read so many messages of the topic that is named as the group, from where that stands, and commit each of them.
    They are counted in `seen`: by partition, origin and number.
    """
    member = consumers.consumer(cluster, group, auto_offset_reset="error")
    try:
        member.subscribe([group])
        for _ in range(count):
            message = member.poll(TERM_S)
            assert message is not None, (group, count)
            assert message.error() is None, message.error()
            seen[message.partition() or 0, (message.key() or b"").decode(), int(message.value() or b"")] += 1
            member.commit(message=message, asynchronous=False)
    finally:
        member.close()
