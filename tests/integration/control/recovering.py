"""What tests of recoveries read and break: whole logs by an independent consumer, and a command that ends half-way."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from confluent_kafka import Consumer, TopicPartition

from isthmus.ledger.documents import Document
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.topic import on_topic
from isthmus.local import LocalCluster
from isthmus.wire.client import Client
from tests.patience import TERM_S

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
