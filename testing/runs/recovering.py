"""What tests of recoveries read and break: whole logs by an independent consumer, and a command that ends half-way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import LedgerChange
from isthmus.ledger.topic import on_topic
from isthmus.local import LocalCluster
from isthmus.memory.links import LinkMemory, recollect
from isthmus.model.configuration import Configuration
from isthmus.model.links.recovery import Recovery
from isthmus.model.naming import LEDGER_TOPIC
from testing.groups.carrying import filled, records
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import configuration_of, ends, link_of, running
from testing.verbs import LinkRecoverer

Headers = tuple[tuple[str, bytes | None], ...]


class Interrupted(Exception):
    """The process that gives the command ends here."""


class Stored(NamedTuple):
    """A record as an independent consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def interrupted_at(step: int, steps: list[str]) -> Callable[[str], None]:
    """A hook that ends the command at that step, and writes down which steps there were."""

    def heard(what: str) -> None:
        steps.append(what)
        if len(steps) > step:
            raise Interrupted(what)

    return heard


def log_of(cluster: LocalCluster, topic: str, partition: int = 0) -> list[Stored]:
    """All committed records of a partition."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.admin_bootstrap_servers,
            "group.id": "recovering",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    found: list[Stored] = []
    try:
        begin, _ = reader.get_watermark_offsets(TopicPartition(topic, partition), TERM_S)
        reader.assign([TopicPartition(topic, partition, begin)])
        deadline = time.monotonic() + TERM_S
        while True:
            message = reader.poll(0.5)
            assert time.monotonic() < deadline, f"{topic} could not be read"
            if message is None:
                continue
            if message.error() is not None:
                return found
            headers = cast(Headers, tuple(message.headers() or ()))
            offset, key, value = message.offset(), message.key(), message.value()
            assert offset is not None
            found.append(Stored(offset, message.timestamp()[1], key, value, headers))
    finally:
        reader.close()


async def written(cluster: LocalCluster, *documents: Document) -> None:
    """Have a cluster's ledger hold documents."""
    async with Client(cluster.cluster()) as client:
        writer = LedgerWriter(client)
        try:
            await on_topic(client, partial(writer.append, list(documents)), replication_factor=None)
        finally:
            writer.close()


FOREIGN = [Given(b"k", b"foreign %d" % n, [("h", b"%d" % n)], SEPTEMBER + n) for n in range(3)]


def link_between(east: LocalCluster, west: LocalCluster, name: str, *patterns: str) -> Configuration:
    """A file with one link of some topics."""
    link = link_of(east.cluster(), west.cluster(), *patterns, name=name)
    return configuration_of(replace(link, topics_interval_s=0.5))


def told(record: Stored) -> tuple[bytes | None, bytes | None, int]:
    """What a record says, wherever it stands."""
    return record.key, record.value, record.timestamp


async def topic_id(cluster: LocalCluster, name: str) -> str:
    async with Client(cluster.cluster()) as client:
        return str((await client.metadata([name])).topics[name].topic_id)


async def _are_at(cluster: LocalCluster, name: str, wanted: list[int]) -> bool:
    return await ends(cluster, name, partitions=len(wanted)) == wanted


async def caught_up(configuration: Configuration, spark: SparkSession) -> None:
    """Run all links until everything is copied."""
    async with running(configuration, spark, until_caught_up=True) as run:
        await run.task


def lost(east: LocalCluster, west: LocalCluster, name: str) -> None:
    """A topic that was copied, of which the source then lost the last 8 records and got 5 others."""
    filled(east, west, name, 20)
    topics.delete(east, name)
    topics.create(east, name)
    topics.produce(east, name, [*records(12), *records(5, begin=100)])


def overtaken(east: LocalCluster, west: LocalCluster, name: str) -> None:
    """A topic of which 10 records were copied, and the source has deleted the next ones by now."""
    filled(east, west, name, 10)
    topics.produce(east, name, records(20, begin=10))
    topics.delete_records(east, name, 15)


def known(cluster: LocalCluster, link: str) -> LinkMemory:
    """What the ledger says of a link."""

    async def asked() -> LinkMemory:
        async with Client(cluster.cluster()) as client:
            return await recollect(link, client)

    return asyncio.run(asked())


def at(step: str, happening: Callable[[], None]) -> Callable[[str], None]:
    """A hook by which something happens at a step."""

    def heard(what: str) -> None:
        if step in what:
            happening()

    return heard


def cut() -> None:
    """The command ends here."""
    raise Interrupted


def recovered(recoverer: LinkRecoverer, step: str = "", happening: Callable[[], None] = cut) -> Recovery:
    """What a command comes to, at one step of which something happens."""
    return asyncio.run((replace(recoverer, on_step=at(step, happening)) if step else recoverer).recover())


def cut_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says something in the ledger next ends between that and its commit. A mark says nothing."""
    append, end = FencedWriter.append, Transaction.end

    async def appended(self: FencedWriter, changes: Iterable[LedgerChange], **more: Any) -> int:
        told = list(changes)
        if not all(change.key.startswith("mark/") for change in told):
            monkeypatch.setattr(Transaction, "end", ended)
        return await append(self, told, **more)

    async def ended(self: Transaction, **_: Any) -> None:
        monkeypatch.setattr(FencedWriter, "append", append)
        monkeypatch.setattr(Transaction, "end", end)
        raise Interrupted

    monkeypatch.setattr(FencedWriter, "append", appended)


def committed(cluster: LocalCluster, link: str) -> set[str]:
    """The kinds of documents of a link that are left in the ledger once brokers have dropped what was aborted."""
    last = {(each.key or b"").decode(): each.value for each in log_of(cluster, LEDGER_TOPIC)}
    return {key.partition("/")[0] for key, value in last.items() if value is not None and f"/{link}/" in f"{key}/"}
