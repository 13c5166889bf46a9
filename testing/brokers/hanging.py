"""Hanging transactions made for the tests: written where a leader does not ask whether they exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from isthmus.engine.same.filler import filler
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.produce import Append, post
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import topics

_VERIFICATION: Final = "transaction.partition.verification.enable"
# The last version in which a client says itself which partitions a transaction has (KIP-890).
_PRODUCE_VERSION: Final = 11
_PAUSE_S: Final = 0.02


def leave_hanging(cluster: LocalCluster, name: str, records: int) -> int:
    """Write records of a transaction that its coordinator never hears of; the producer id."""
    with trusting(cluster):
        return asyncio.run(_leave(cluster, name, records))


@contextmanager
def trusting(cluster: LocalCluster) -> Iterator[None]:
    """Meanwhile leaders do not ask coordinators whether a transaction exists."""
    _set(cluster, ConfigEntry(_VERIFICATION, "false", incremental_operation=AlterConfigOpType.SET), "false")
    try:
        yield
    finally:
        _set(cluster, ConfigEntry(_VERIFICATION, None, incremental_operation=AlterConfigOpType.DELETE), "true")


def _set(cluster: LocalCluster, entry: ConfigEntry, value: str) -> None:
    """Change a broker config and wait until every broker has heard of it: the controller answers before."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    deadline = time.monotonic() + TERM_S
    for broker in cluster.brokers:
        # librdkafka takes one broker a request.
        resource = ConfigResource(ResourceType.BROKER, str(broker.node_id), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TERM_S)
        while admin.describe_configs([resource])[resource].result(TERM_S)[_VERIFICATION].value != value:
            assert time.monotonic() < deadline, f"{broker!r} has not heard of {entry!r}"
            time.sleep(_PAUSE_S)


async def _leave(cluster: LocalCluster, name: str, records: int) -> int:
    async with Client(topics.as_admin(cluster)) as client:
        transaction = Transaction(client, name)
        await transaction.initialize()
        topic = (await client.metadata([name])).topics[name]
        connection = await client.connection(topic.partitions[0].leader)
        batch = filler(records, topics.SEPTEMBER)
        header = stamp(batch, transaction.producer_id, transaction.epoch, 0, transactional=True)
        append = Append(name, topic.topic_id, 0, header, batch.view[HEADER_BYTES:])
        deadline = time.monotonic() + TERM_S
        # The broker hears of the setting a moment after it was set.
        while (code := await _produced(connection, append, name)) != codes.NONE:
            assert time.monotonic() < deadline, codes.name_of(code)
            await asyncio.sleep(0.1)
        return transaction.producer_id


async def _produced(connection: Connection, append: Append, transactional_id: str) -> int:
    answers, _ = await post(
        connection,
        [append],
        version=_PRODUCE_VERSION,
        timeout_ms=10_000,
        timeout_s=TERM_S,
        transactional_id=transactional_id,
    )
    (answer,) = answers.values()
    return int(answer.error_code)
