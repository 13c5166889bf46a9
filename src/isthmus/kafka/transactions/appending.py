"""Records appended to a partition, each once and in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, scan, stamp
from isthmus.kafka.batches.records import encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.mirrormaker_records import KeyedRecord
from isthmus.model.kafka.rights import on_topic

PARTITION: Final = 0
_BATCH_BYTES: Final = 256 << 10
_BROKER_TERM_MS: Final = 3_000
_ANSWER_S: Final = 5.0
_RETRY_S: Final = 0.2


class TopicAppender:
    """Appends to one partition as an idempotent producer, over a connection of its own, as acks=all may delay others.

    A batch that was given up may still arrive: a caller that relies on the contents has to read them again. With a
    `transaction` each batch is one transaction, and none arrives once another producer has initialized the same id.
    """

    def __init__(
        self, client: Client, topic: str, partition: int = PARTITION, *, transaction: Transaction | None = None
    ) -> None:
        self.client = client
        self.topic = topic
        self.partition = partition
        self._transaction = transaction
        self._connection: Connection | None = None
        self._topic_id = NO_TOPIC_ID
        self._producer_id: int | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close the connection. The next record opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def append(self, records: Sequence[KeyedRecord], *, now_ms: int, term_s: float = 10.0) -> None:
        """Append records with this timestamp; they are durable when it returns.

        :raises ClusterError: They were rejected, or did not arrive in time; some of them may be there all the same.
        """
        deadline = Deadline(term_s)
        for part in _split(records):
            await self._write_batch(
                next(scan(encode_records((now_ms, key, value, ()) for key, value in part))), deadline
            )

    async def write(self, batch: Batch, *, term_s: float = 30.0) -> None:
        """Append a batch as it is; it is durable when this returns.

        :raises ClusterError: It was rejected, or did not arrive in time; it may be there all the same.
        """
        await self._write_batch(batch, Deadline(term_s))

    async def _write_batch(self, batch: Batch, deadline: Deadline) -> None:
        try:
            await self._append(batch, deadline)
        except (ClusterError, asyncio.CancelledError):
            # With a new producer id, batches still in flight are not confused with the next ones.
            self._producer_id = None
            self.close()
            raise

    async def _append(self, batch: Batch, deadline: Deadline) -> None:
        transaction = self._transaction
        if transaction is not None:
            await transaction.begin((self.topic, self.partition))
            header = stamp(batch, transaction.producer_id, transaction.epoch, self._sequence, transactional=True)
            await self._send(header, batch, deadline)
            await transaction.end(commit=True)
            return
        if self._producer_id is None:
            self._producer_id, self._sequence = await allocate_producer(self.client), 0
        await self._send(stamp(batch, self._producer_id, 0, self._sequence), batch, deadline)

    async def _send(self, header: bytes, batch: Batch, deadline: Deadline) -> None:
        while True:
            try:
                await self._attempt(header, batch)
            except Unreachable:
                self.close()
                if deadline.passes_within(_RETRY_S):
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                self._sequence += batch.record_count
                return

    async def _attempt(self, header: bytes, batch: Batch) -> None:
        connection = await self._connect()
        answer = await produce.post_one(
            connection,
            produce.Append(self.topic, self._topic_id, self.partition, header, batch.view[HEADER_BYTES:]),
            timeout_ms=_BROKER_TERM_MS,
            timeout_s=_ANSWER_S,
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
        )
        if answer.error_code == codes.DUPLICATE_SEQUENCE_NUMBER:
            return
        what = f"writing topic {self.topic}"
        if answer.error_code in codes.APPEND_PASSES:
            raise Unreachable(
                f"{self.client.cluster.alias} cannot do {what} now: {codes.name_of(answer.error_code)}",
                cluster=self.client.cluster.alias,
                hint=f"Check the brokers that hold topic {self.topic}; Isthmus tries again.",
            )
        right, alias = on_topic("WRITE", self.topic), self.client.cluster.alias
        codes.raise_for_code(answer.error_code, what, right, cluster=alias, detail=answer.error_message)

    async def _connect(self) -> Connection:
        held = self._connection
        if held is not None and not held.closed and not held.due_for_renewal:
            return held
        self.close()
        metadata = await self.client.metadata([self.topic])
        topic = metadata.topics[self.topic]
        what, right = f"finding topic {self.topic}", on_topic("DESCRIBE", self.topic)
        if topic.error_code not in codes.LEADER_MOVED:
            codes.raise_for_code(topic.error_code, what, right, cluster=self.client.cluster.alias)
        leader = next((p.leader for p in topic.partitions if p.partition == self.partition), -1)
        if leader not in metadata.brokers:
            raise Unreachable(
                f"topic {self.topic} of {self.client.cluster.alias} has no leader",
                cluster=self.client.cluster.alias,
                hint="Bring the brokers back that hold its replicas (kafka-topics --describe names them).",
            )
        self._topic_id = topic.topic_id
        self._connection = await self.client.dial(leader)
        return self._connection


class CurrentAppender:
    """The appender to the current topic, for a caller that writes one topic at a time."""

    def __init__(self) -> None:
        self._held: TopicAppender | None = None

    def to(self, client: Client, topic: str) -> TopicAppender:
        """Return the appender to a topic, and close one to another topic."""
        held = self._held
        if held is None or held.client is not client or held.topic != topic:
            self.close()
            held = self._held = TopicAppender(client, topic)
        return held

    def close(self) -> None:
        """Close the connection."""
        if self._held is not None:
            self._held.close()


def _split(records: Sequence[KeyedRecord]) -> Iterator[list[KeyedRecord]]:
    """Split records, in order, into batches that are small enough for brokers."""
    part: list[KeyedRecord] = []
    size = 0
    for record in records:
        if part and size > _BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.key) + len(record.value)
    if part:
        yield part
