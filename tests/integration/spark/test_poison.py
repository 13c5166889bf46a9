"""Records in the ledger's topic that are no documents: whatever somebody writes there ends nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from isthmus.kafka.batches.records import encode_records
from isthmus.kafka.client import Client
from isthmus.ledger.log import LedgerTail
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.model.process.receipt import Ending
from testing.records import topics
from testing.records.forgery import append
from testing.records.topics import Given
from tests.integration.spark.controlled import controlled

pytestmark = pytest.mark.integration
KINDS = ("link", "topic", "group", "pause", "controller", "lease", "task", "progress")
HUGE = 7 << 20


def poison(link: str) -> Iterator[Given]:
    """Records that bear keys of the link's documents or bytes that are no text; brokers want one where they compact."""
    values = [
        b"\xff\x00",
        b"not json",
        b"[" * 100_000,
        b'{"schema_version":1}',
        b'{"schema_version":1e999}',
        json.dumps(
            {"schema_version": 1, "link": link, "slot": -1, "controller": None, "generation": {}, "lanes": 7}
        ).encode(),
        b"x" * HUGE,
    ]
    for value in values:
        for key in (b"\xff\xfe", *(f"{kind}/{link}/0".encode() for kind in KINDS)):
            yield Given(key, value if len(value) < HUGE or key == b"\xff\xfe" else b"x", [], topics.SEPTEMBER)
    yield Given(f"controller/{link}".encode(), b'{"schema_version":1,"generation":null}', [], topics.SEPTEMBER)


def test_poison_in_the_ledger(
    spark: SparkSession,
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Controller and lease read on behind it, tell it once and copy; so does the lease that is started next."""
    name, link_name = topic("orders"), topic("link")
    topics.create_both(east, west, name)
    one = [Given(b"a", b"1", [], topics.SEPTEMBER)]
    odd = encode_records([(topics.SEPTEMBER, f"task/{link_name}/0".encode(), b"{}", [("\udcff", b"x")])])

    async def scenario() -> None:
        async with controlled(spark, east, west, link_name, term_s=10.0) as link:
            await link.assign(name)
            await asyncio.to_thread(topics.produce, east, name, one)
            await link.until_copied(name)
            await asyncio.to_thread(
                topics.produce, west, LEDGER_TOPIC, poison(link_name), message_max_bytes=HUGE + (1 << 20)
            )
            await append(link.target, LEDGER_TOPIC, odd)
            end = await end_of_ledger(link.target)
            await link.until(lambda: link.ledger.tail.position >= end)
            await asyncio.to_thread(topics.produce, east, name, one)
            await link.until_copied(name)
            await link.until(lambda: len(link.scheduler.receipts) >= 2)
            await asyncio.to_thread(topics.produce, east, name, one)
            await link.until_copied(name)
            endings = {receipt.ending for receipt in link.scheduler.receipts}
            assert endings <= {Ending.SUCCEEDED, Ending.TERM, Ending.ORPHANED}
            assert not link.controlling.done()
            await link.until(lambda: link.ledger.problem is None)

    with caplog.at_level(logging.WARNING, "isthmus.ledger"):
        asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records if f"task/{link_name}/0" in record.getMessage()]
    assert len(told) == 1


async def end_of_ledger(client: Client) -> int:
    """Where the ledger ends now."""
    tail = LedgerTail(client)
    await tail.read_to_end()
    tail.close()
    return tail.position
