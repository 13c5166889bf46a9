"""Records set aside: each in a topic of its own beside the one it was in, with its place there in its headers.

The quarantine topic has the partitions of the topic. Key, value, headers and timestamp are the record's; the headers
below come behind its own. Any consumer can read it.

    isthmus.topic-id     the id of the topic it was in (it is deleted since)
    isthmus.partition    where it stood
    isthmus.offset
    isthmus.kind         diverged, misplaced or expired, see `SetAside`
    isthmus.producer     the producer id that wrote it, -1 for none
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.engine.batches.rebatch import Record, encode
from isthmus.errors import ClusterError
from isthmus.kafka.admin.changes import BROKER_DEFAULT, NewTopic, await_leaders, create_topics, is_there_already
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.batches.aborted import ABORT, AbortedView, control_type
from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.batches.records import Headers, encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.transactions.appending import TopicAppender
from isthmus.mirrormaker.takeover.examination import digest
from isthmus.model.kafka.transactions import is_lone
from isthmus.model.links.recovery import DivergedPartition, LogSpan, OffsetRuns, SetAside, quarantine_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery.comparison import decode_records
from isthmus.recovery.sides import find_topic

TOPIC_ID: Final = "isthmus.topic-id"
PARTITION: Final = "isthmus.partition"
OFFSET: Final = "isthmus.offset"
KIND: Final = "isthmus.kind"
PRODUCER: Final = "isthmus.producer"
_OURS: Final = frozenset({TOPIC_ID, PARTITION, OFFSET, KIND, PRODUCER})
_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    # A record of a compressed batch may be far larger than the batch was.
    "max.message.bytes": str(64 << 20),
}
_PARCEL_BYTES: Final = 512 << 10
_ZSTD: Final = 4
_RECORD_BYTES: Final = 256
"""The size of a record beside its key and its value, with the headers added here: more than enough."""


class Quarantined(NamedTuple):
    """A record as it was before it was set aside."""

    topic_id: str
    kind: SetAside
    producer_id: int
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantine of one topic at the target, to be filled: `topic_id` is that of the topic as it is now.

    `own_producers` are the producer ids of the link, whose copies may stand at wrong offsets.
    """

    source: Client
    target: Client
    source_topic: SourceTopic
    topic: TargetTopic
    topic_id: uuid.UUID
    own_producers: Collection[int] = ()

    @property
    def name(self) -> str:
        """The topic that takes the records."""
        return quarantine_of(self.topic)

    async def open(self, partition_count: int, replication_factor: int | None) -> None:
        """Require that the quarantine topic is there, and keeps what it holds. Needs CREATE on it.

        :raises ClusterError: It cannot be created or configured, or has too few partitions.
        """
        factor = replication_factor or BROKER_DEFAULT
        new = NewTopic(
            name=self.name, partition_count=partition_count, replication_factor=factor, configs=dict(_CONFIGS)
        )
        error = (await create_topics(self.target, [new])).errors.get(self.name)
        if error is not None and not is_there_already(error):
            raise error
        if error is not None and (there := await find_topic(self.target, self.name)) is not None:
            # A topic that a broker created by itself, or that was configured otherwise, would delete records after a
            # while.
            wrong = {name: value for name, value in _CONFIGS.items() if there.value(name) != value}
            altered = await alter_topic_configs(self.target, {self.name: dict(wrong)} if wrong else {})
            for refused in altered.errors.values():
                raise refused
        if self.name not in await await_leaders(self.target, {self.name: partition_count}):
            raise ClusterError(
                f"topic {self.name} of {self.target.cluster.alias} has not {partition_count} partitions with leaders",
                cluster=self.target.cluster.alias,
                hint=f"Bring its brokers back, or add partitions: kafka-topics --alter --topic {self.name}.",
            )

    async def holds_others(self, partitions: Iterable[DivergedPartition]) -> bool:
        """Whether others than the link wrote any record that only the target has, from the first difference on.

        :raises ClusterError: It cannot be read.
        """
        for found in partitions:
            span = OffsetRange(self.topic, found.partition, *found.tail)
            async with aclosing(committed_batches(self.target, span)) as batches:
                async for batch in batches:
                    if not self._is_own(batch):
                        return True
        return False

    def _is_own(self, batch: Batch) -> bool:
        """Whether the link wrote it: under an id of its own, or in a transaction of a producer of the source."""
        return batch.producer_id in self.own_producers or is_lone(batch.producer_id)

    async def take(self, found: DivergedPartition) -> int:
        """Set aside all records that only the target has of a partition, and read them back; return their number.

        Records that are there already are not written again.

        :raises ClusterError: It cannot be read, written or read back.
        """
        stored = await self._read_stored_offsets(found.partition)
        wanted = OffsetRuns()
        appender = TopicAppender(self.target, self.name, found.partition)
        try:
            for span, is_head in ((found.head, True), (found.tail, False)):
                if span.begin < span.end:
                    await self._take_span(found, span, stored, wanted, appender, is_head=is_head)
        finally:
            appender.close()
        there = await self._read_stored_offsets(found.partition)
        lost = next((offset for offset in wanted if offset not in there), None)
        if lost is not None:
            raise ClusterError(
                f"{self.name} of {self.target.cluster.alias} lacks offset {lost} of {self.topic}-{found.partition}",
                cluster=self.target.cluster.alias,
                hint=(
                    "Nothing was deleted. Make sure that no client deletes records of the quarantine; then run it "
                    "again."
                ),
            )
        return wanted.count

    async def _take_span(
        self,
        found: DivergedPartition,
        span: LogSpan,
        stored: OffsetRuns,
        wanted: OffsetRuns,
        appender: TopicAppender,
        *,
        is_head: bool,
    ) -> None:
        range_ = OffsetRange(self.topic, found.partition, *span)
        at_source: frozenset[bytes] | None = None
        async with aclosing(committed_records(self.target, range_)) as batches:
            async for batch, records in batches:
                is_own = not is_head and self._is_own(batch)
                if is_own and at_source is None:
                    at_source = await self._digests_at_source(found)
                taken = []
                for record in records:
                    wanted.add(record.offset)
                    if record.offset not in stored:
                        is_misplaced = is_own and at_source is not None and digest(record) in at_source
                        kind = SetAside.MISPLACED if is_misplaced else SetAside.DIVERGED
                        taken.append(self._row(record, SetAside.EXPIRED if is_head else kind, batch, found.partition))
                for parcel in parcels(taken):
                    await appender.write(parcel)

    async def _digests_at_source(self, found: DivergedPartition) -> frozenset[bytes]:
        """Read digests of the source's records from which the link's own misplaced copies can come."""
        span = OffsetRange(self.source_topic, found.partition, found.shared, min(found.source_end, found.target_end))
        seen: set[bytes] = set()
        async with aclosing(committed_records(self.source, span)) as batches:
            async for _, records in batches:
                seen.update(map(digest, records))
        return frozenset(seen)

    def _row(self, record: Record, kind: SetAside, batch: Batch, partition: int) -> Row:
        headers: Headers = [
            *record.headers,
            (TOPIC_ID, str(self.topic_id).encode()),
            (PARTITION, b"%d" % partition),
            (OFFSET, b"%d" % record.offset),
            (KIND, str(kind).encode()),
            (PRODUCER, b"%d" % batch.producer_id),
        ]
        return record.timestamp, record.key, record.value, headers

    async def _read_stored_offsets(self, partition: int) -> OffsetRuns:
        """Read the offsets of the partition that are set aside already."""
        own = str(self.topic_id)
        return OffsetRuns(
            [each.offset async for each in read_quarantined(self.target, self.name, partition) if each.topic_id == own]
        )


Row = tuple[int, bytes | None, bytes | None, Headers]
"""A record to write: timestamp (ms), key, value, headers."""


def parcels(rows: Sequence[Row]) -> Iterator[Batch]:
    """Yield the records in the same order, as batches of a size that brokers accept, if no record is larger."""
    parcel: list[Row] = []
    size = 0
    for row in rows:
        own = _RECORD_BYTES + len(row[1] or b"") + len(row[2] or b"")
        if parcel and size + own > _PARCEL_BYTES:
            yield _parcel(parcel)
            parcel, size = [], 0
        parcel.append(row)
        size += own
    if parcel:
        yield _parcel(parcel)


def _parcel(rows: Sequence[Row]) -> Batch:
    if any(timestamp < 0 for timestamp, *_ in rows):
        # The faster encoder needs timestamps for all records or for none.
        return next(scan(encode_records(rows)))
    return encode([Record(number, *row) for number, row in enumerate(rows)], _ZSTD)


async def read_quarantined(client: Client, name: str, partition: int) -> AsyncGenerator[Quarantined, None]:
    """Yield the records of a quarantine topic's partition, each once, in the order in which they were set aside.

    A record that was written twice (by a process that was interrupted) is returned once.

    :raises ClusterError: The partition cannot be read.
    """
    outcomes = await log_ranges(client, [(name, partition)])
    for error in outcomes.errors.values():
        raise error
    log = outcomes.values[name, partition]
    yielded: dict[str, OffsetRuns] = {}
    async with aclosing(committed_records(client, OffsetRange(name, partition, log.start, log.end))) as batches:
        async for _, records in batches:
            for record in records:
                found = _parse(record)
                if found is not None:
                    runs = yielded.setdefault(found.topic_id, OffsetRuns())
                    if found.offset not in runs:
                        runs.add(found.offset)
                        yield found


def _parse(record: Record) -> Quarantined | None:
    """Return the record as it was; `None` for one that another program wrote into the quarantine."""
    own = {name: value or b"" for name, value in record.headers if name in _OURS}
    if own.keys() != _OURS:
        return None
    try:
        return Quarantined(
            topic_id=own[TOPIC_ID].decode(),
            kind=SetAside(own[KIND].decode()),
            producer_id=int(own[PRODUCER]),
            partition=int(own[PARTITION]),
            offset=int(own[OFFSET]),
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=[each for each in record.headers if each[0] not in _OURS],
        )
    except ValueError:
        return None


async def committed_records(client: Client, span: OffsetRange) -> AsyncGenerator[tuple[Batch, list[Record]], None]:
    """Yield the committed records of a range, batch by batch."""
    async with aclosing(committed_batches(client, span)) as batches:
        async for batch in batches:
            yield batch, decode_records(batch, client.cluster.alias, span)


async def committed_batches(client: Client, span: OffsetRange) -> AsyncGenerator[Batch, None]:
    """Yield the batches that hold the committed records of a range. Records of open transactions are not committed;
    those that others have committed behind the first record of one are.

    :raises ClusterError: It cannot be read.
    """
    if span.is_empty:
        return
    found = await log_ranges(client, [span.key])
    for error in found.errors.values():
        raise error
    stable = min(max(found.values[span.key].stable_end, span.offset_begin), span.offset_end)
    async with aclosing(LogReader(client).read(span._replace(offset_end=stable))) as answers:
        async for stored in answers:
            for batch, is_aborted in stored:
                if not (batch.is_control or is_aborted):
                    yield batch
    rest = span._replace(offset_begin=stable)
    view = AbortedView(await _find_uncommitted(client, rest))
    async with aclosing(LogReader(client, isolation=READ_UNCOMMITTED).read(rest)) as answers:
        async for stored in answers:
            for batch, _ in stored:
                if not view.advance(batch) and not batch.is_control:
                    yield batch


async def _find_uncommitted(client: Client, span: OffsetRange) -> list[tuple[int, int]]:
    """Return the transactions of a range that are aborted in it or do not end: producer and first offset there. Brokers
    report these only for offsets before the last stable one.
    """
    begun: dict[int, int] = {}
    aborted: list[tuple[int, int]] = []
    async with aclosing(LogReader(client, isolation=READ_UNCOMMITTED).read(span)) as answers:
        async for stored in answers:
            for batch, _ in stored:
                if batch.is_control:
                    first = begun.pop(batch.producer_id, None)
                    if first is not None and control_type(batch) == ABORT:
                        aborted.append((batch.producer_id, first))
                elif batch.is_transactional:
                    begun.setdefault(batch.producer_id, batch.base_offset)
    return [*aborted, *begun.items()]
