"""Open and hanging transactions on a real broker, with kafka-transactions as the witness and the remedy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.fabric.fabric import Administration
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.transactions import TransactionState
from testing.brokers.hanging import leave_hanging
from testing.patience import TERM_S
from testing.records import topics
from testing.records.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"


def test_open_transaction_is_known_to_its_coordinator(east: LocalCluster, topic: TopicNamer) -> None:
    """Who holds the last stable offset back, since when and for how long it may; nothing is wrong with that."""
    name = topic("open")
    topics.create(east, name)
    topics.produce(east, name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 5)
    producer = TransactionalProducer(east, f"{name}-id", transaction_timeout_ms=600_000)
    before_ms = int(time.time() * 1000)
    producer.send(name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 3)
    after_ms = int(time.time() * 1000)
    known = Administration(east.cluster())

    report = known.topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.transactional_id) == (TransactionState.OPEN, f"{name}-id")
    assert (transaction.first_offset, transaction.held_records, transaction.coordinator) == (5, 3, 1)
    assert (transaction.timeout_ms, transaction.since_ms) == (600_000, topics.SEPTEMBER)
    assert transaction.started_ms is not None
    assert before_ms - 1000 < transaction.started_ms < after_ms + 1000
    assert report.findings == ()
    assert (report.partitions[0].stable_end, report.partitions[0].high_watermark) == (5, 8)
    producer.end(commit=True)
    deadline = time.monotonic() + TERM_S
    while known.topics([name]).transactions:
        assert time.monotonic() < deadline


def test_hanging_transaction_is_found_and_ended(east: LocalCluster, topic: TopicNamer) -> None:
    """A transaction that no coordinator knows is found as kafka-transactions finds it, and ended as the hint says."""
    name = topic("hanging")
    topics.create(east, name)
    producer_id = leave_hanging(east, name, 4)
    known = Administration(east.cluster())

    report = known.topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.producer_id) == (TransactionState.HANGING, producer_id)
    assert (transaction.first_offset, transaction.held_records) == (0, 4)
    (finding,) = report.findings
    assert (finding.level, finding.check) == (Level.ERROR, "hanging transaction")
    servers = ("--bootstrap-server", east.bootstrap_servers)
    listed = kafka_tool(TOOL, *servers, "find-hanging", "--topic", name).stdout
    assert str(producer_id) in listed, listed
    arguments = finding.hint.partition(" abort ")[2].split()
    ended = kafka_tool(TOOL, *servers, "abort", *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    after = known.topics([name])
    assert after.transactions == ()
    assert after.findings == ()
    assert after.partitions[0].stable_end == after.partitions[0].high_watermark
