"""What leases do while the ledger cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest
from pyspark.sql import SparkSession

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.model.process.receipt import Ending
from isthmus.spark.leases.tenure import SILENCE_S
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.traffic import traffic
from tests.integration.spark.controlled import controlled

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


@pytest.fixture
def fragile(west3: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster of three brokers without a ledger: one on a single broker may be created, and goes with the test."""

    named = MetadataRequest.MetadataRequestTopic(topic_id=None, name=LEDGER_TOPIC)
    asked = MetadataRequest(topics=[named], allow_auto_topic_creation=False)

    async def forget() -> None:
        async with Client(west3.admin_cluster()) as client:
            state = DeleteTopicsRequest.DeleteTopicState(name=LEDGER_TOPIC, topic_id=NO_TOPIC_ID)
            request = DeleteTopicsRequest(topics=[state], topic_names=[LEDGER_TOPIC], timeout_ms=10_000)
            await client.controller(request)
            # Brokers hear of it after the controller.
            for broker in west3.brokers:
                connection = await client.connection(broker.node_id)
                while (await connection.call(asked)).topics[0].error_code != codes.UNKNOWN_TOPIC_OR_PARTITION:
                    await asyncio.sleep(0.01)

    asyncio.run(forget())
    yield west3
    asyncio.run(forget())


def test_writing_rests_while_the_ledger_is_away(
    spark: SparkSession, east: LocalCluster, fragile: LocalCluster, topic: Names
) -> None:
    """A lease that cannot read the ledger may have been revoked there: it stops after ten seconds, and goes on by
    itself when it can read again and finds that it was not.
    """
    orders = topic("orders")
    topics.create(east, orders)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with controlled(spark, east, fragile, topic("link"), term_s=600.0, replication_factor=1) as link:
            ledger_on = fragile.broker(link.ledger.tail.node_id)
            data_on = next(broker for broker in fragile.brokers if broker.node_id != ledger_on.node_id)
            servers = f"127.0.0.1:{data_on.admin_port}"
            topics.create(fragile, orders, assigned=[[data_on.node_id]])

            def written() -> int:
                return oracle.ends(servers, orders).high

            async def until_behind(end: int) -> None:
                deadline = loop.time() + TERM_S
                while await asyncio.to_thread(written) <= end:
                    assert loop.time() < deadline
                    await asyncio.sleep(0.1)

            await link.assign(orders)
            with traffic(east, orders, records_per_s=100):
                await link.until_records(100)
                ledger_on.pause()
                paused_at = loop.time()
                try:
                    await until_behind(await asyncio.to_thread(written))
                    await asyncio.sleep(max(paused_at + SILENCE_S + 2 - loop.time(), 0))
                    before, rest = -1, await asyncio.to_thread(written)
                    # What was on its way may still come.
                    while before != rest:
                        assert loop.time() < paused_at + TERM_S
                        await asyncio.sleep(3.0)
                        before, rest = rest, await asyncio.to_thread(written)
                finally:
                    ledger_on.resume()
                await until_behind(rest)
            await link.until_copied(orders)
            assert {receipt.ending for receipt in link.scheduler.receipts} <= {Ending.SUCCEEDED, Ending.ORPHANED}

    asyncio.run(scenario())
    oracle.assert_same(east, fragile, orders)
