"""Real consumers for the tests, through librdkafka: they join, read and commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.lane.topics import Brokers

TERM_S: Final = 20.0
Offsets = Mapping[tuple[str, int], int]


def consumer(cluster: Brokers, group: str, **settings: Any) -> Consumer:
    """A consumer that commits only when told to; the dots of a setting's name are written as underscores."""
    return Consumer(
        {
            "bootstrap.servers": cluster.admin_bootstrap_servers,
            "group.id": group,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


@contextmanager
def joined(cluster: Brokers, group: str, topic: str, protocol: str = "classic", **settings: Any) -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    member = consumer(cluster, group, group_protocol=protocol, **settings)
    try:
        member.subscribe([topic])
        deadline = time.monotonic() + TERM_S
        while not member.assignment():
            member.poll(0.05)
            assert time.monotonic() < deadline, f"{group} got no partitions"
        yield member
    finally:
        member.close()


def commit(cluster: Brokers, groups: Mapping[str, Offsets]) -> None:
    """Commit for groups that nobody is in."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    wanted = [ConsumerGroupTopicPartitions(group, _partitions(offsets)) for group, offsets in groups.items()]
    deadline = time.monotonic() + TERM_S
    while wanted:
        asked = [(one, future) for one in wanted for future in admin.alter_consumer_group_offsets([one]).values()]
        # A topic that was just created is not known to every broker at once.
        wanted = [one for one, future in asked if any(p.error for p in future.result(TERM_S).topic_partitions)]
        assert time.monotonic() < deadline, "a commit was refused"


def transactional(cluster: Brokers, transactional_id: str) -> Producer:
    """A producer that may send offsets to a transaction."""
    producer = Producer(
        {"bootstrap.servers": cluster.admin_bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 1}
    )
    producer.init_transactions(TERM_S)
    return producer


def send_offsets(producer: Producer, cluster: Brokers, group: str, offsets: Offsets) -> None:
    """Commit for a group that nobody is in, as part of the open transaction."""
    outside = consumer(cluster, group)
    try:
        producer.send_offsets_to_transaction(_partitions(offsets), outside.consumer_group_metadata(), TERM_S)
    finally:
        outside.close()


def delete_groups(cluster: Brokers, *groups: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    for future in admin.delete_consumer_groups(list(groups)).values():
        future.result(TERM_S)


def _partitions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(*key, offset) for key, offset in offsets.items()]
