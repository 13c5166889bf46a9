"""Transactional sources made for the tests: several producers whose transactions overlap."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from confluent_kafka import Producer

from isthmus.lane.transaction import Transaction
from isthmus.wire.client import Client
from tests.integration.lane import topics

_TERM_S: Final = 30.0


class TransactionalProducer:
    """A librdkafka producer with a transaction that may be open."""

    def __init__(self, cluster: topics.Brokers, transactional_id: str, **settings: object) -> None:
        self._producer: Producer = topics.producer(cluster, transactional_id=transactional_id, **settings)
        self._producer.init_transactions(_TERM_S)
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
            end(_TERM_S)
            self.is_open = False


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

    asyncio.run(scenario())
