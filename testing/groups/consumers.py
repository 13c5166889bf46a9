"""Real consumers for the tests, through librdkafka: they join, read and commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from isthmus.errors import Unreachable
from isthmus.local.probe import ask
from testing.patience import TERM_S
from testing.records.topics import Brokers

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


@contextmanager
def worker(cluster: Brokers, group: str) -> Iterator[None]:
    """A member of the kind of Kafka Connect's workers, which librdkafka has not."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="default", metadata=b"")
    await_coordinator(cluster.admin_bootstrap_servers, group)
    first = int(cluster.admin_bootstrap_servers.partition(",")[0].rpartition(":")[2])
    port = ask(first, FindCoordinatorRequest(key=group, key_type=0, max_version=3), cluster="local").port
    # From version 4 on a member has to ask twice.
    joined = ask(
        port,
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="connect",
            protocols=[protocol],
            max_version=3,
        ),
        cluster="local",
    )
    assert joined.error_code == 0, joined
    try:
        yield
    finally:
        ask(port, LeaveGroupRequest(group_id=group, member_id=joined.member_id, max_version=2), cluster="local")


def commit(cluster: Brokers, groups: Mapping[str, Offsets]) -> None:
    """Commit for groups that nobody is in."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    wanted = [ConsumerGroupTopicPartitions(group, _partitions(offsets)) for group, offsets in groups.items()]
    deadline = time.monotonic() + TERM_S
    await_coordinator(cluster.admin_bootstrap_servers, next(iter(groups)))
    while wanted:
        asked = [(one, future) for one in wanted for future in admin.alter_consumer_group_offsets([one]).values()]
        # A topic that was just created is not known to every broker at once.
        wanted = [one for one, future in asked if any(p.error for p in future.result(TERM_S).topic_partitions)]
        assert not wanted or time.monotonic() < deadline, "a commit was refused"


def await_coordinator(servers: str, group: str) -> None:
    """Wait until the coordinator of a group answers for it. Who asks first has the log of commits created, and its
    partition read: librdkafka asks three times only, and its list_consumer_group_offsets crashes meanwhile.
    """
    find = FindCoordinatorRequest(key=group, key_type=0, max_version=3)
    fetch = OffsetFetchRequest(group_id=group, topics=None, require_stable=False, max_version=7)
    ports = [int(address.rpartition(":")[2]) for address in servers.split(",")]
    deadline = time.monotonic() + TERM_S
    while True:
        for port in ports:
            with contextlib.suppress(Unreachable):
                found = ask(port, find, cluster="local", timeout_s=5.0)
                if found.error_code == 0 and not ask(found.port, fetch, cluster="local", timeout_s=5.0).error_code:
                    return
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.05)


def await_position(cluster: Brokers, group: str, key: tuple[str, int], offset: int, *, stable: bool = False) -> None:
    """Wait until a group stands there, whatever transactions are open unless it is to be `stable`."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*key)])
    await_coordinator(cluster.admin_bootstrap_servers, group)
    deadline = time.monotonic() + TERM_S
    while True:
        (future,) = admin.list_consumer_group_offsets([asked], require_stable=stable).values()
        (found,) = future.result(TERM_S).topic_partitions
        if found.error is None and found.offset == offset:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def transactional(cluster: Brokers, transactional_id: str) -> Producer:
    """A producer that may send offsets to a transaction."""
    settings = {"bootstrap.servers": cluster.admin_bootstrap_servers, "transactional.id": transactional_id}
    # The machine may stand still for longer than librdkafka's minute.
    producer = Producer({**settings, "linger.ms": 1, "transaction.timeout.ms": 900_000})
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
