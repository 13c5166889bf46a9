"""Rows in Arrow become record batches, a builder for each partition, and a digest that does not depend on their order.

As little as possible is done for each row: columns are taken apart as buffers, partitions are chosen for all rows at
once, and records are encoded by aiokafka's compiled builder.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from isthmus.engine.batches.rebatch import new_builder, place_batch
from isthmus.errors import RowRefused
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.spark.dataframes.sinkpartitions import murmur2_of, partitions_by_key, runs, spread

if TYPE_CHECKING:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

BATCH_BYTES: Final = 1_000_000
"""Below what brokers accept by default (max.message.bytes), with room for the header."""
BUILT_BYTES: Final = 16 << 20
"""The builders of all partitions together hold so much, and the rows of one Arrow batch more."""
_CHUNK_ROWS: Final = 2_000
_NONE: Final = -1
_US_PER_MS: Final = 1_000
_DIGEST_LANES: Final = 4
_HEAD: Final = np.dtype(
    [("timestamp", "<i8"), ("partition", "<i4"), ("topic", "<i4"), ("key", "<i8"), ("value", "<i8")]
)
_NO_HEADERS: Final[list[tuple[str, bytes | None]]] = []

CountPartitions = Callable[[str], Awaitable[int]]


class Octets(NamedTuple):
    """A column of bytes: one buffer, where each row begins and ends in it, and which rows are null."""

    data: bytes
    begins: Any
    ends: Any
    is_null: Any

    @classmethod
    def of(cls, column: pa.Array) -> Octets:
        """Take a column of binary or string apart."""
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
        wide = pa.types.is_large_binary(column.type)
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, "<i8" if wide else "<i4")[column.offset : column.offset + len(column) + 1]
        first, last = int(bounds[0]), int(bounds[-1])
        # The buffer may be that of many more rows.
        octets = b"" if data is None else data.slice(first, last - first).to_pybytes()
        places = bounds.astype(np.int64) - first
        return cls(octets, places[:-1], places[1:], nulls_of(column))

    @property
    def lengths(self) -> Any:
        """The number of bytes, -1 for null."""
        return np.where(self.is_null, _NONE, self.ends - self.begins)

    def values(self) -> list[bytes | None]:
        """Return the value of each row."""
        data = self.data
        found: list[bytes | None] = [data[a:b] for a, b in zip(self.begins.tolist(), self.ends.tolist(), strict=True)]
        for row in np.flatnonzero(self.is_null).tolist():
            found[row] = None
        return found


def nulls_of(column: pa.Array) -> Any:
    """Return which rows of a column are null."""
    if not column.null_count:
        return np.zeros(len(column), bool)
    return np.asarray(column.is_null())


class RowBatch:
    """The rows of one Arrow batch, by column."""

    def __init__(self, batch: pa.RecordBatch, topic: str) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self.count = batch.num_rows
        self.topics, self.topic_of = _topics(columns, self.count, topic)
        self.value = Octets.of(columns["value"])
        self.key = Octets.of(columns["key"]) if "key" in columns else None
        self.partition = self._numbers(columns.get("partition"))
        self.timestamp = self._timestamps(columns.get("timestamp"))
        self.headers = self._headers(columns.get("headers"))

    def _numbers(self, column: pa.Array | None) -> Any:
        """Return the partition that each row names, -1 for none."""
        if column is None:
            return np.full(self.count, _NONE, np.int32)
        found = np.asarray(column.fill_null(_NONE), np.int32)
        wrong = (found < 0) & ~nulls_of(column)
        self._refuse(wrong, "partition", lambda row: f"{found[row]} is below 0", "Null has the key choose.")
        return found

    def _timestamps(self, column: pa.Array | None) -> Any:
        """Return the timestamp of each row in ms, -1 for none."""
        if column is None:
            return np.full(self.count, _NONE, np.int64)
        found = np.asarray(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(0)) // _US_PER_MS
        is_null = nulls_of(column)
        # That before 1970 by one is Kafka's own way to say that there is none.
        wrong = (found < _NONE) & ~is_null
        self._refuse(wrong, "timestamp", lambda row: f"{found[row]} ms is before 1970", "Null is the present time.")
        return np.where(is_null, _NONE, found)

    def _headers(self, column: pa.Array | None) -> list[list[tuple[str, bytes | None]]] | None:
        if column is None:
            return None
        structs = column.flatten()
        keys, values = structs.field(0), Octets.of(structs.field(1)).values()
        nulls = nulls_of(keys) | nulls_of(structs)
        counts = np.asarray(column.value_lengths().fill_null(0), np.int64)
        ends = np.cumsum(counts)
        if nulls.any():
            row = int(np.searchsorted(ends, np.flatnonzero(nulls)[0], side="right"))
            self._refuse(np.arange(self.count) == row, "headers", lambda _: "a header has no key", "Leave it out.")
        pairs = list(zip(keys.to_pylist(), values, strict=True))
        return [pairs[b - n : b] for n, b in zip(counts.tolist(), ends.tolist(), strict=True)]

    def _refuse(self, wrong: Any, column: str, why: Callable[[int], str], hint: str) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise _row_error(self.topics[self.topic_of[row]], column, why(row), hint)

    def choose_partitions(self, counts: Sequence[int], begin: int) -> Any:
        """Return the partition of each row; `counts` are those of `topics`.

        :raises RowRefused: A row names a partition that its topic has not.
        """
        chosen = self.partition.copy()
        limits = np.asarray(counts, np.int64)[self.topic_of]
        self._refuse(
            chosen >= limits,
            "partition",
            lambda row: f"it has no partition {chosen[row]}, but {limits[row]}, from 0 on",
            "Correct the column, or add partitions to the topic.",
        )
        for index, count in enumerate(counts):
            rows = np.flatnonzero((chosen < 0) & (self.topic_of == index))
            if self.key is not None and len(rows):
                keyed = rows[~self.key.is_null[rows]]
                octets = np.frombuffer(self.key.data, np.uint8)
                hashes = murmur2_of(octets, self.key.begins[keyed], self.key.ends[keyed])
                chosen[keyed] = partitions_by_key(hashes, count)
                rows = rows[self.key.is_null[rows]]
            chosen[rows] = spread(len(rows), count, begin)
        return chosen

    def add_to(self, digest: RowsDigest, keys: list[bytes | None] | None, values: list[bytes | None]) -> None:
        """Add the rows to a digest, as they were given: a null stays null."""
        head = np.empty(self.count, _HEAD)
        head["timestamp"], head["partition"] = self.timestamp, self.partition
        head["value"] = self.value.lengths
        head["key"] = _NONE if self.key is None else self.key.lengths
        names = [name.encode() for name in self.topics]
        head["topic"] = np.asarray([len(name) for name in names], np.int32)[self.topic_of]
        heads, size = head.tobytes(), _HEAD.itemsize
        topics = self.topic_of.tolist()
        parts: list[bytes] = []
        for row, value in enumerate(values):
            key = None if keys is None else keys[row]
            joined = [heads[row * size : row * size + size], names[topics[row]], key or b"", value or b""]
            if self.headers is not None:
                joined.append(repr(self.headers[row]).encode())
            parts.append(sha256(b"".join(joined)).digest())
        digest.add(parts)


class RowsDigest:
    """The digest of a set of rows, in whatever order: the sum of the SHA-256 of each, in four lanes of 64 bits."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = np.zeros(_DIGEST_LANES, "<u8")

    def add(self, digests: Sequence[bytes]) -> None:
        """Add the digests of more rows."""
        self.rows += len(digests)
        self._sum += np.frombuffer(b"".join(digests), "<u8").reshape(-1, _DIGEST_LANES).sum(axis=0, dtype="<u8")

    def __str__(self) -> str:
        return self._sum.tobytes().hex()


def _topics(columns: dict[str, pa.Array], count: int, topic: str) -> tuple[list[str], Any]:
    """Return the names of the topics, and the index of each row's."""
    if topic:
        return [topic], np.zeros(count, np.int64)
    column = columns["topic"]
    if column.null_count:
        raise RowRefused(
            "a row has null in its column topic, and there is no option topic",
            hint="Every row needs a topic: filter those without one, or set the option topic for all rows.",
        )
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def _row_error(topic: str, column: str, why: str, hint: str) -> RowRefused:
    return RowRefused(f"a row for topic {topic!r} cannot be written, column {column}: {why}", hint=hint)


class RowEncoder:
    """Encodes rows into batches of their partitions. Rows of one partition stay in their order."""

    def __init__(self, topic: str, codec: int, count_partitions: CountPartitions) -> None:
        self.digest = RowsDigest()
        self._topic = topic
        self._codec = codec
        self._count_partitions = count_partitions
        self._spread_from = random.randrange(1 << 16)
        self._builders: dict[PartitionKey, tuple[DefaultRecordBatchBuilder, int]] = {}

    async def encode(self, arrow: pa.RecordBatch) -> list[tuple[PartitionKey, Batch]]:
        """Take the rows of an Arrow batch. Return the batches that are full.

        :raises RowRefused: A row cannot be written.
        :raises ClusterError: The topic of a row cannot be found.
        """
        full: list[tuple[PartitionKey, Batch]] = []
        for begin in range(0, arrow.num_rows, _CHUNK_ROWS):
            full += await self._encode(RowBatch(arrow.slice(begin, _CHUNK_ROWS), self._topic))
        if sum(builder.size() for builder, _ in self._builders.values()) > BUILT_BYTES:
            full += self.finish()
        return full

    def compare(self, arrow: pa.RecordBatch) -> None:
        """Only add the rows to the digest.

        :raises RowRefused: A row could not be written.
        """
        for begin in range(0, arrow.num_rows, _CHUNK_ROWS):
            rows = RowBatch(arrow.slice(begin, _CHUNK_ROWS), self._topic)
            rows.add_to(self.digest, None if rows.key is None else rows.key.values(), rows.value.values())

    async def _encode(self, rows: RowBatch) -> list[tuple[PartitionKey, Batch]]:
        keys = None if rows.key is None else rows.key.values()
        values = rows.value.values()
        rows.add_to(self.digest, keys, values)
        counts = [await self._count_partitions(topic) for topic in rows.topics]
        partitions = rows.choose_partitions(counts, self._spread_from)
        self._spread_from += 1
        places = rows.topic_of * max(counts, default=1) + partitions
        order = np.argsort(places, kind="stable")
        bounds = runs(order, places).tolist()
        times = np.where(rows.timestamp < 0, int(time.time() * 1000), rows.timestamp).tolist()
        placed = order.tolist()
        full: list[tuple[PartitionKey, Batch]] = []
        for begin, end in pairwise(bounds):
            first = placed[begin]
            key = rows.topics[rows.topic_of[first]], int(partitions[first])
            chosen = placed[begin:end]
            full += ((key, batch) for batch in self._append(key, chosen, times, keys, values, rows.headers))
        return full

    def _append(
        self,
        place: PartitionKey,
        rows: list[int],
        times: list[int],
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        headers: list[list[tuple[str, bytes | None]]] | None,
    ) -> Iterator[Batch]:
        """Append rows to the builder of a partition. Yield the batches that are full."""
        builder, delta = self._builders.get(place) or (new_builder(BATCH_BYTES), 0)
        append = builder.append
        for row in rows:
            key = None if keys is None else keys[row]
            given = _NO_HEADERS if headers is None else headers[row]
            if append(delta, times[row], key, values[row], given) is None:
                yield self._build(builder)
                builder, delta = new_builder(BATCH_BYTES), 0
                append = builder.append
                # The first record of a batch may have any size.
                append(0, times[row], key, values[row], given)
            delta += 1
        self._builders[place] = builder, delta

    def _build(self, builder: DefaultRecordBatchBuilder) -> Batch:
        return place_batch(builder.build(), 0, self._codec)

    def finish(self) -> list[tuple[PartitionKey, Batch]]:
        """Return the batches that are not full."""
        found = [(key, self._build(builder)) for key, (builder, _) in self._builders.items()]
        self._builders.clear()
        return found
