"""Transactional sources made for the tests: several producers whose transactions overlap."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Producer
from kafka.protocol.admin import DescribeTransactionsRequest

from isthmus.errors import Unreachable, UnsupportedByBroker
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.local import LocalCluster
from isthmus.local.probe import ask
from isthmus.local.tools import kafka_tool
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.mirror import Reports, caught_up


class TransactionalProducer:
    """A librdkafka producer with a transaction that may be open."""

    def __init__(self, cluster: topics.Brokers, transactional_id: str, **settings: object) -> None:
        self._cluster, self._transactional_id = cluster, transactional_id
        # The machine may stand still for longer than librdkafka's minute.
        settings = {"transaction_timeout_ms": 900_000, **settings}
        self._producer: Producer = topics.producer(cluster, transactional_id=transactional_id, **settings)
        self._producer.init_transactions(TERM_S)
        self.is_open = False

    def send(self, name: str, given: list[topics.Given], *, partition: int = 0) -> None:
        """Write records in the open transaction, or in a new one; they are in the log afterwards."""
        if not self.is_open:
            self._producer.begin_transaction()
            self.is_open = True
        topics.send(self._producer, name, given, partition=partition)
        topics.flush(self._producer)

    def end(self, *, commit: bool) -> None:
        if self.is_open:
            end = self._producer.commit_transaction if commit else self._producer.abort_transaction
            end(TERM_S)
            self.is_open = False
            self._await_markers()

    def _await_markers(self) -> None:
        """The coordinator answers first and has the control records written afterwards."""
        request = DescribeTransactionsRequest(transactional_ids=[self._transactional_id])
        deadline = time.monotonic() + TERM_S
        for address in self._cluster.admin_bootstrap_servers.split(","):
            port = int(address.rpartition(":")[2])
            # Before 3.0 brokers do not tell (KIP-664); those that do not coordinate it answer without a state, and one
            # that is down coordinates nothing.
            with contextlib.suppress(UnsupportedByBroker, Unreachable):
                while ask(port, request, cluster="local").transaction_states[0].transaction_state.startswith("Prepare"):
                    assert time.monotonic() < deadline, f"{self._transactional_id} is still ending"
                    time.sleep(0.01)


def interleave(
    cluster: topics.Brokers, name: str, chance: random.Random, *, steps: int, partitions: int = 1, producers: int = 3
) -> None:
    """Fill a topic by several transactional producers and a plain one, taking turns by chance; all end in the end."""
    writers = [TransactionalProducer(cluster, f"{name}-{n}") for n in range(producers)]
    plain = topics.producer(cluster)
    for _ in range(steps):
        partition = chance.randrange(partitions)
        given = topics.some(chance.randint(1, 12), chance)
        writer = chance.choice([*writers, None])
        if writer is None:
            topics.send(plain, name, given, partition=partition)
            topics.flush(plain)
        elif chance.random() < 0.35:
            writer.end(commit=chance.random() < 0.5)
        else:
            writer.send(name, given, partition=partition)
    for writer in writers:
        writer.end(commit=chance.random() < 0.5)


def end_without_data(cluster: topics.Brokers, name: str, *, commit: bool, partition: int = 0) -> None:
    """Leave the control record of a transaction that wrote nothing to this partition."""

    async def scenario() -> None:
        async with Client(topics.as_admin(cluster)) as client:
            transaction = Transaction(client, f"{name}-{partition}-empty")
            await transaction.initialize()
            await transaction.begin((name, partition))
            await transaction.end(commit=commit)
            await transaction.wait_for_end(commit=commit)

    asyncio.run(scenario())


LARGE: Final = 300


def has_lone_producers(cluster: LocalCluster, name: str) -> bool:
    """Whether batches of producers that no cluster has given an id lie on the disk."""
    return max(oracle.producer_ids(cluster, name)) >= 1 << 62


def abort_large(cluster: LocalCluster, name: str, chance: random.Random) -> None:
    """A transaction of `LARGE` records, too many to be copied at once, that is aborted."""
    abort(cluster, name, topics.some(LARGE, chance, value_bytes=20_000), f"{name}-id", batch_num_messages=1)


def abort(
    cluster: LocalCluster, name: str, given: list[topics.Given], transactional_id: str, **settings: object
) -> None:
    """A transaction of these records that is aborted."""
    producer = TransactionalProducer(cluster, transactional_id, **settings)
    producer.send(name, given)
    producer.end(commit=False)


def coordinated(cluster: LocalCluster) -> str:
    """The transactions that coordinators know, as Kafka's own tool lists them."""
    servers = ("--bootstrap-server", cluster.admin_bootstrap_servers)
    listed = kafka_tool("org.apache.kafka.tools.TransactionsCommand", *servers, "list")
    assert listed.returncode == 0, listed.stderr
    return listed.stdout


def copied(end: int) -> Callable[[Reports], bool]:
    """Every lane is caught up and has copied what lies before this offset."""
    return lambda reports: caught_up(reports) and all(report.position >= end for report in reports.values())
