"""Reads ranges of a log as stored: batches as bytes, with whether consumers skip them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import AbortedView
from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.batches.legacy import messages
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import Want, fetch_once
from isthmus.kafka.log.leader import LogPlace, places_of
from isthmus.kafka.log.listoffsets import READ_COMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.tail import find_in_tier
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.model.kafka.rights import on_topic

FETCH_BYTES: Final = 8 << 20
_FETCH_BYTES_MIN: Final = 64 << 10
_BYTES_PER_OFFSET: Final = 1 << 10
"""A guess, until the first answer."""
_MARGIN: Final = 1.2
_WAIT_MS: Final = 500
_ANSWER_S: Final = 30.0
_RETRY_S: Final = 0.2
STALL_S: Final = 30.0
_MAGIC: Final = 2
_MOVING: Final = codes.LEADER_MOVED | {codes.OFFSET_OUT_OF_RANGE, codes.UNKNOWN_TOPIC_ID}


class OffsetRange(NamedTuple):
    """The offsets `[offset_begin, offset_end)` of one partition."""

    topic: str
    partition: int
    offset_begin: int
    offset_end: int

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition

    @property
    def is_empty(self) -> bool:
        return self.offset_begin >= self.offset_end

    def records_of(self, batch: Batch) -> int:
        """The number of a batch's records in the range, if it has no holes there."""
        offsets = min(batch.offset_end, self.offset_end) - max(batch.base_offset, self.offset_begin)
        return min(batch.record_count, offsets)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.offset_begin}, {self.offset_end})"


class StoredBatch(NamedTuple):
    """A batch, and whether consumers at read_committed skip it as part of an aborted transaction."""

    batch: Batch
    is_aborted: bool


def committed_view(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> Iterator[StoredBatch]:
    """Mark the batches of one Fetch answer that a consumer at read_committed skips, see `AbortedView`."""
    view = AbortedView(aborted)
    return (StoredBatch(batch, view.advance(batch)) for batch in batches)


def unreadable_error(alias: str, what: str, error: Exception) -> BrokerRefused:
    """Build the error for stored bytes that cannot be decoded; `what` names them."""
    return BrokerRefused(
        f"{alias} delivers bytes that are no records at {what}: {error}",
        code=codes.CORRUPT_MESSAGE,
        name="CORRUPT_MESSAGE",
        cluster=alias,
        hint="Check the broker's disk: kafka-dump-log --deep-iteration names the batch.",
    )


def modern(batch: Batch) -> Batch:
    """Return the batch with its offsets filled in: magic 0 and 1 have them only inside the messages (KIP-31).

    :raises ValueError: The checksum of a message set is wrong.
    :raises KafkaError: The batch cannot be decoded.
    """
    if batch.magic == _MAGIC:
        return batch
    offsets = [record.offset for record in messages(batch)]
    return batch._replace(base_offset=offsets[0], offset_end=offsets[-1] + 1, record_count=len(offsets))


def _density(found: Sequence[StoredBatch]) -> float:
    """The bytes per offset of these batches."""
    first, last = found[0].batch, found[-1].batch
    return sum(item.batch.size_bytes for item in found) / (last.offset_end - first.base_offset)


def _fetch_bytes(offsets: int, density: float, bytes_max: int) -> int:
    """How many bytes to ask for: enough for the offsets that are left, but not for all records behind them."""
    return min(max(int(offsets * density * _MARGIN), _FETCH_BYTES_MIN), bytes_max)


class LogReader:
    """Reads one cluster's partitions, following leaders that move.

    :param isolation: At `READ_COMMITTED` up to the last stable offset, else up to the high watermark, where no batch
        is known to be aborted.
    :param stall_s: For how long a read may make no progress before it fails.
    :param fetch_bytes: The size limit of an answer, unless its first batch is larger.
    :param connect: Returns the connection to a node; by default the one that all requests of the client share.
    :param topic_ids: The ids that topics have to have. Others are known from the first answer on.
    """

    def __init__(
        self,
        client: Client,
        *,
        isolation: int = READ_COMMITTED,
        stall_s: float = STALL_S,
        fetch_bytes: int = FETCH_BYTES,
        connect: Callable[[int], Awaitable[Connection]] | None = None,
        topic_ids: Mapping[str, uuid.UUID] = MappingProxyType({}),
    ) -> None:
        self._client = client
        self._expected_ids = topic_ids
        self._connect = connect or client.connection
        self._alias = client.cluster.alias
        self._isolation = isolation
        self._stall_s = stall_s
        self._fetch_bytes_max = fetch_bytes
        self._leaders: dict[PartitionKey, LogPlace] = {}
        self._topic_ids: dict[PartitionKey, uuid.UUID] = {}

    async def read(self, span: OffsetRange) -> AsyncGenerator[list[StoredBatch], None]:
        """Yield the batches that hold offsets of the range, in order: a list for each answer of the broker.

        The first may begin before the range and the last may end behind it. Control batches are
        included; offsets that the log does not hold (any more) are left out. The next answer is on
        its way while the caller works on this one.

        :raises ClusterError: The broker refused, or there was no progress for `stall_s`, or the topic is another one by
            now, which only the next read reads.
        """
        offset = span.offset_begin
        bytes_max = _fetch_bytes(span.offset_end - offset, _BYTES_PER_OFFSET, self._fetch_bytes_max)
        ahead: asyncio.Task[list[StoredBatch]] | None = None
        try:
            while offset < span.offset_end:
                found = await (ahead or self._fetch(span, offset, bytes_max))
                ahead = None
                if not found:
                    return
                offset = found[-1].batch.offset_end
                if offset < span.offset_end:
                    bytes_max = _fetch_bytes(span.offset_end - offset, _density(found), self._fetch_bytes_max)
                    ahead = asyncio.create_task(self._fetch(span, offset, bytes_max))
                    # Send the request now, before the caller occupies the event loop.
                    await asyncio.sleep(0)
                else:
                    found = [item for item in found if item.batch.base_offset < span.offset_end]
                yield found
        finally:
            if ahead is not None:
                ahead.cancel()

    async def first_batch(self, span: OffsetRange) -> Batch | None:
        """Read the first batch of the range, whose base may lie before it; `None` if there is none.

        :raises ClusterError: As `read`.
        """
        found = await self.first_batches(span, 1)
        return found[0] if found else None

    async def first_batches(self, span: OffsetRange, bytes_max: int) -> list[Batch]:
        """Read the first batches of the range, as many as fit into an answer and at least one, whose base may lie
        before it; empty if there is none.

        :raises ClusterError: As `read`.
        """
        # Whatever the limit, the broker sends the first batch whole (KIP-74).
        found = await self._fetch(span, span.offset_begin, bytes_max)
        return [each.batch for each in found if each.batch.base_offset < span.offset_end]

    async def _fetch(self, span: OffsetRange, offset: int, bytes_max: int) -> list[StoredBatch]:
        """Fetch the batches of one answer, at least one; none if the log has none in the rest of the range.

        :raises ClusterError: As `read`; also if the log ends before the offset, which proves nothing: its leader may be
            a new one that lacks records.
        """
        deadline = Deadline(self._stall_s)
        while True:
            try:
                return await self._attempt(span, offset, bytes_max)
            except ClusterError as error:
                code = error.code if isinstance(error, BrokerRefused) else codes.NONE
                if not (error.retryable or code in _MOVING) or deadline.has_passed:
                    raise
            if code == codes.OFFSET_OUT_OF_RANGE:
                start, end = await self._log_range(span)
                if start >= span.offset_end:
                    return []
                if offset > end:
                    raise Unreachable(
                        f"{self._alias} ends at {end} where {span} is read from {offset} on: it lost records, or its "
                        "leader does not know yet how far they are replicated",
                        cluster=self._alias,
                        hint="Did a replica lead that was not in sync? Check the brokers of this partition.",
                    )
                offset = max(offset, start)
            self._leaders.pop(span.key, None)
            await asyncio.sleep(_RETRY_S)

    async def _attempt(self, span: OffsetRange, offset: int, bytes_max: int) -> list[StoredBatch]:
        leader = self._leaders.get(span.key) or await self._leader(span)
        connection = await self._connect(leader.node_id)
        wants = {span.key: Want(leader.topic_id, offset, leader.leader_epoch, -1)}
        (part,) = await fetch_once(
            connection,
            wants,
            isolation=self._isolation,
            bytes_max=bytes_max,
            max_wait_ms=_WAIT_MS,
            timeout_s=_ANSWER_S,
        )
        if part.error_code in (codes.NONE, codes.OFFSET_OUT_OF_RANGE):
            self._check_topic(span, leader.topic_id)
        codes.raise_for_code(part.error_code, f"reading {span}", on_topic("READ", span.topic), cluster=self._alias)
        try:
            batches = [modern(batch) for batch in scan(part.records)]
        except (ValueError, KafkaError) as error:
            raise unreadable_error(self._alias, f"offset {offset} of {span}", error) from error
        found = [item for item in committed_view(batches, part.aborted) if item.batch.offset_end > offset]
        # Without records up to the end of the range, the cleaner has left none there.
        if not found and (part.records or part.end < span.offset_end or await find_in_tier(connection, wants)):
            raise Unreachable(
                f"{self._alias} has nothing at offset {offset} of {span} yet",
                cluster=self._alias,
                hint="Are all its replicas up? The partition's last stable offset does not move.",
            )
        return found

    def _check_topic(self, span: OffsetRange, topic_id: uuid.UUID) -> None:
        """Note the id by which a leader has shown the log: by partition, as reads of others have to notice it too.

        :raises ClusterError: It was shown by another one before.
        """
        before = self._topic_ids.get(span.key, self._expected_ids.get(span.topic, NO_TOPIC_ID))
        self._topic_ids[span.key] = topic_id
        if NO_TOPIC_ID not in (before, topic_id) and before != topic_id:
            raise ClusterError(
                f"topic {span.topic} of {self._alias} was deleted and created again while it was read",
                cluster=self._alias,
                hint="Nothing was concluded from it. Begin again.",
            )

    async def _leader(self, span: OffsetRange) -> LogPlace:
        metadata = await self._client.metadata([span.topic])
        topic = metadata.topics[span.topic]
        right = on_topic("DESCRIBE", span.topic)
        codes.raise_for_code(topic.error_code, f"reading {span}", right, cluster=self._alias)
        places = places_of(metadata, span.topic)
        self._leaders.update(((span.topic, partition), place) for partition, place in places.items())
        if span.key not in self._leaders:
            raise codes.error_for(codes.LEADER_NOT_AVAILABLE, f"reading {span}", right, cluster=self._alias)
        return self._leaders[span.key]

    async def _log_range(self, span: OffsetRange) -> tuple[int, int]:
        outcomes = await log_ranges(self._client, [span.key])
        for error in outcomes.errors.values():
            raise error
        found = outcomes.values[span.key]
        return found.start, found.end
