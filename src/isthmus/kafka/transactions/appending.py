"""Records appended to a partition, each once and in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import Batch, scan, stamp
from isthmus.kafka.batches.records import encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.model.kafka.mirrormaker_records import KeyedRecord

PARTITION: Final = 0
_BATCH_BYTES: Final = 256 << 10


class TopicAppender:
    """Appends to one partition as an idempotent producer.

    A batch that was given up may still arrive: a caller that relies on the contents has to read them again.
    """

    def __init__(self, client: Client, topic: str, partition: int = PARTITION) -> None:
        self.client = client
        self.topic = topic
        self._leader = LogLeader(client, (topic, partition))
        self._producer_id: int | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close the connection. The next record opens another one."""
        self._leader.close()

    async def append(self, records: Sequence[KeyedRecord], *, now_ms: int, term_s: float = 10.0) -> None:
        """Append records with this timestamp; they are durable when it returns.

        :raises ClusterError: They were rejected, or did not arrive in time; some of them may be there all the same.
        """
        deadline = Deadline(term_s)
        for part in _split(records):
            batch = next(scan(encode_records((now_ms, key, value, ()) for key, value in part)))
            await self.write(batch, term_s=deadline.left_s)

    async def write(self, batch: Batch, *, term_s: float = 30.0) -> None:
        """Append a batch as it is; it is durable when this returns.

        :raises ClusterError: It was rejected, or did not arrive in time; it may be there all the same.
        """
        try:
            if self._producer_id is None:
                self._producer_id, self._sequence = await allocate_producer(self.client), 0
            header = stamp(batch, self._producer_id, 0, self._sequence)
            # However long a quota asks for: the term is for the answer.
            await self._leader.wait_until_unmuted()
            await self._leader.append(header, batch, term_s=term_s)
            self._sequence += batch.record_count
        except (ClusterError, asyncio.CancelledError):
            # With a new producer id, batches still in flight are not confused with the next ones.
            self._producer_id = None
            self.close()
            raise


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
