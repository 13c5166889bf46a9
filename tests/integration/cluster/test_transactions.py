"""Open and hanging transactions on a real broker, with kafka-transactions as the witness and the remedy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from isthmus.cluster.local import LocalCluster
from isthmus.cluster.local.tools import kafka_tool
from isthmus.control.known import KnownCluster
from isthmus.lane.filler import filler
from isthmus.lane.transaction import Transaction
from isthmus.model.findings import Level
from isthmus.model.transactions import TransactionState
from isthmus.wire.batch import HEADER_BYTES, stamp
from isthmus.wire.client import Client
from isthmus.wire.produce import Append, decode, encode
from tests.integration.lane import topics
from tests.integration.lane.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
VERIFICATION: Final = "transaction.partition.verification.enable"
# The last version in which a client says itself which partitions a transaction has (KIP-890).
PRODUCE_VERSION: Final = 11
TERM_S: Final = 30.0


@pytest.fixture
def trusting(east: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster whose leaders do not ask coordinators whether a transaction exists."""
    _set(east, ConfigEntry(VERIFICATION, "false", incremental_operation=AlterConfigOpType.SET))
    yield east
    _set(east, ConfigEntry(VERIFICATION, None, incremental_operation=AlterConfigOpType.DELETE))


def _set(cluster: LocalCluster, entry: ConfigEntry) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TERM_S)


def leave_hanging(cluster: LocalCluster, name: str, records: int) -> int:
    """Write records of a transaction that its coordinator never hears of; the producer id."""

    async def scenario() -> int:
        async with Client(topics.as_admin(cluster)) as client:
            transaction = Transaction(client, name)
            await transaction.initialize()
            topic = (await client.metadata([name])).topics[name]
            connection = await client.connection(topic.partitions[0].leader)
            batch = filler(records, topics.SEPTEMBER)
            header = stamp(batch, transaction.producer_id, transaction.epoch, 0, transactional=True)
            frame = encode(
                [Append(name, topic.topic_id, 0, header, batch.view[HEADER_BYTES:])],
                version=PRODUCE_VERSION,
                correlation=connection.next_correlation,
                client_id=connection.client_id,
                timeout_ms=10_000,
                transactional_id=name,
            )
            future = connection.post_frame(frame, lambda payload, c: decode(payload, c, PRODUCE_VERSION))
            answers, _ = await connection.within(future, TERM_S, "Produce")
            assert [answer.error_code for answer in answers.values()] == [0]
            return transaction.producer_id

    return asyncio.run(scenario())


def test_open_transaction_is_known_to_its_coordinator(east: LocalCluster, topic: TopicNamer) -> None:
    """Who holds the last stable offset back, since when and for how long it may; nothing is wrong with that."""
    name = topic("open")
    topics.create(east, name)
    topics.produce(east, name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 5)
    producer = TransactionalProducer(east, f"{name}-id", transaction_timeout_ms=45_000)
    before_ms = int(time.time() * 1000)
    producer.send(name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 3)
    known = KnownCluster(east.cluster())

    report = known.topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.transactional_id) == (TransactionState.OPEN, f"{name}-id")
    assert (transaction.first_offset, transaction.held_records, transaction.coordinator) == (5, 3, 1)
    assert (transaction.timeout_ms, transaction.since_ms) == (45_000, topics.SEPTEMBER)
    assert transaction.started_ms is not None
    assert before_ms - 1000 < transaction.started_ms < before_ms + 30_000
    assert report.findings == ()
    assert (report.partitions[0].stable_end, report.partitions[0].high_watermark) == (5, 8)
    producer.end(commit=True)
    deadline = time.monotonic() + TERM_S
    while known.topics([name]).transactions:
        assert time.monotonic() < deadline


def test_hanging_transaction_is_found_and_ended(trusting: LocalCluster, topic: TopicNamer) -> None:
    """A transaction that no coordinator knows is found as kafka-transactions finds it, and ended as the hint says."""
    name = topic("hanging")
    topics.create(trusting, name)
    producer_id = leave_hanging(trusting, name, 4)
    known = KnownCluster(trusting.cluster())

    report = known.topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.producer_id) == (TransactionState.HANGING, producer_id)
    assert (transaction.first_offset, transaction.held_records) == (0, 4)
    (finding,) = report.findings
    assert (finding.level, finding.check) == (Level.ERROR, "hanging transaction")
    servers = ("--bootstrap-server", trusting.bootstrap_servers)
    listed = kafka_tool(TOOL, *servers, "find-hanging", "--topic", name).stdout
    assert str(producer_id) in listed, listed
    arguments = finding.hint.partition(" abort ")[2].split()
    ended = kafka_tool(TOOL, *servers, "abort", *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    after = known.topics([name])
    assert after.transactions == ()
    assert after.findings == ()
    assert after.partitions[0].stable_end == after.partitions[0].high_watermark
