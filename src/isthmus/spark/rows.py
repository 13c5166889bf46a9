"""Stored batches as Arrow columns: one row per batch, or one row per record.

Only the columns that were asked for are computed, so a reader that wants no digests pays for none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from aiokafka.errors import KafkaError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from isthmus.kafka.batches.aborted import ABORT, control_type
from isthmus.kafka.batches.batch import CODEC_MASK, CODECS, LOG_APPEND_TIME, RECORDS_BEGIN, Batch
from isthmus.kafka.batches.records import header_key, records_in
from isthmus.kafka.log.reading import OffsetRange, StoredBatch, unreadable_error

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

DIGEST_BYTES: Final = 16
NO_TIMESTAMP: Final = -1
_ROWS_MAX: Final = 10_000
_ROWS_FROM_BYTES_MAX: Final = 1 << 20
_BATCH_HEAD: Final = struct.Struct(">hqq").pack
_LENGTHS: Final = struct.Struct(">iii").pack
_NULL: Final = -1

_HEADERS_ARROW: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_HEADERS_SPARK: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


class RowOrigin(NamedTuple):
    """The origin of rows: their range, its number in the plan, and its cluster."""

    cluster: str
    number: int
    span: OffsetRange


class Part(NamedTuple):
    """Input of rows: batches or decoded records, which of them are aborted, and their origin."""

    rows: list[Any]
    is_aborted: list[bool]
    origin: RowOrigin


class RowColumn(NamedTuple):
    """A column's types, and the function that computes its values."""

    spark: DataType
    arrow: pa.DataType
    values: Callable[[Part], Sequence[Any]]


def batch_digest(batch: Batch) -> bytes:
    """16 bytes that are the same for a batch and for a raw copy of it at the same offset.

    Covers what a consumer makes of the batch: the codec and timestamp type, both timestamps of the
    header, and everything from the record count on. SHA-256 is the fastest hash of the standard
    library where the processor knows it (1.4 times BLAKE2b), and never the bottleneck.
    """
    digest = sha256()
    digest_batch(digest, batch)
    return digest.digest()[:DIGEST_BYTES]


def digest_batch(digest: HASH, batch: Batch) -> None:
    """Add to a digest all that a raw copy of a batch shares with it, at any offset."""
    kind = batch.attributes & (CODEC_MASK | LOG_APPEND_TIME)
    digest.update(_BATCH_HEAD(kind, batch.base_timestamp, batch.max_timestamp))
    digest.update(batch.view[RECORDS_BEGIN:])


def bytes_digest(data: bytes | None) -> bytes | None:
    """16 bytes for a key or a value; none for none, which is not the same as empty."""
    return None if data is None else sha256(data).digest()[:DIGEST_BYTES]


def headers_digest(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """16 bytes for a record's headers, in their order."""
    return sha256(b"".join(_header_parts(headers))).digest()[:DIGEST_BYTES]


def record_digest(record: Any) -> bytes:
    """16 bytes for a record's key, value and headers, separated by their lengths; null is not empty."""
    key, value, headers = record.key, record.value, record.headers
    parts = [
        _LENGTHS(_NULL if key is None else len(key), _NULL if value is None else len(value), len(headers)),
        key or b"",
        value or b"",
    ]
    if headers:
        parts += _header_parts(headers)
    return sha256(b"".join(parts)).digest()[:DIGEST_BYTES]


def _header_parts(headers: Iterable[tuple[str, bytes | None]]) -> list[bytes]:
    parts: list[bytes] = []
    for name, value in headers:
        key = header_key(name)
        parts += (_LENGTHS(len(key), _NULL if value is None else len(value), 0), key, value or b"")
    return parts


def _control_type(batch: Batch) -> str | None:
    if not batch.is_control:
        return None
    return "abort" if control_type(batch) == ABORT else "commit"


def _headers(record: Any) -> list[dict[str, Any]]:
    # A string of Spark cannot have invalid UTF-8; digests keep such names distinct.
    return [{"key": header_key(name).decode(errors="replace"), "value": value} for name, value in record.headers]


def timestamp_of(record: Any) -> int:
    """Return a record's timestamp in ms, `NO_TIMESTAMP` where it has none, as in messages of magic 0."""
    return NO_TIMESTAMP if record.timestamp is None else int(record.timestamp)


_INT: Final = (IntegerType(), pa.int32())
_LONG: Final = (LongType(), pa.int64())
_BOOLEAN: Final = (BooleanType(), pa.bool_())
_BINARY: Final = (BinaryType(), pa.binary())
_STRING: Final = (StringType(), pa.string())

_COLUMNS: Final[Mapping[str, RowColumn]] = {
    "range": RowColumn(*_INT, lambda part: [part.origin.number] * len(part.rows)),
    "cluster": RowColumn(*_STRING, lambda part: [part.origin.cluster] * len(part.rows)),
    "topic": RowColumn(*_STRING, lambda part: [part.origin.span.topic] * len(part.rows)),
    "partition": RowColumn(*_INT, lambda part: [part.origin.span.partition] * len(part.rows)),
    "is_aborted": RowColumn(*_BOOLEAN, lambda part: part.is_aborted),
}

BATCH_COLUMNS: Final[Mapping[str, RowColumn]] = {
    **_COLUMNS,
    "base_offset": RowColumn(*_LONG, lambda part: [batch.base_offset for batch in part.rows]),
    "offset_end": RowColumn(*_LONG, lambda part: [batch.offset_end for batch in part.rows]),
    "record_count": RowColumn(*_INT, lambda part: [part.origin.span.records_of(batch) for batch in part.rows]),
    "is_control": RowColumn(*_BOOLEAN, lambda part: [batch.is_control for batch in part.rows]),
    "control_type": RowColumn(*_STRING, lambda part: [_control_type(batch) for batch in part.rows]),
    "codec": RowColumn(*_STRING, lambda part: [CODECS[batch.codec] for batch in part.rows]),
    "max_timestamp_ms": RowColumn(*_LONG, lambda part: [batch.max_timestamp for batch in part.rows]),
    "size_bytes": RowColumn(*_INT, lambda part: [batch.size_bytes for batch in part.rows]),
    "digest": RowColumn(
        *_BINARY, lambda part: [None if batch.is_control else batch_digest(batch) for batch in part.rows]
    ),
}

RECORD_COLUMNS: Final[Mapping[str, RowColumn]] = {
    **_COLUMNS,
    "offset": RowColumn(*_LONG, lambda part: [record.offset for record in part.rows]),
    "timestamp_ms": RowColumn(*_LONG, lambda part: [timestamp_of(record) for record in part.rows]),
    "timestamp_type": RowColumn(*_INT, lambda part: [record.timestamp_type for record in part.rows]),
    "key": RowColumn(*_BINARY, lambda part: [record.key for record in part.rows]),
    "value": RowColumn(*_BINARY, lambda part: [record.value for record in part.rows]),
    "headers": RowColumn(_HEADERS_SPARK, _HEADERS_ARROW, lambda part: [_headers(record) for record in part.rows]),
    "is_tombstone": RowColumn(*_BOOLEAN, lambda part: [record.value is None for record in part.rows]),
    "digest": RowColumn(*_BINARY, lambda part: [record_digest(record) for record in part.rows]),
    "key_digest": RowColumn(*_BINARY, lambda part: [bytes_digest(record.key) for record in part.rows]),
    "value_digest": RowColumn(*_BINARY, lambda part: [bytes_digest(record.value) for record in part.rows]),
    "headers_digest": RowColumn(*_BINARY, lambda part: [headers_digest(record.headers) for record in part.rows]),
}

UNUSUAL_COLUMNS: Final = frozenset({"range", "cluster", "is_tombstone", "key_digest", "value_digest", "headers_digest"})
"""Columns that have to be named to be read."""


class Rows:
    """Makes Arrow batches of the wanted columns, of which each must be one of those above.

    :raises KeyError: There is no column of that name.
    """

    def __init__(self, columns: Mapping[str, RowColumn], names: Sequence[str]) -> None:
        self._columns = [columns[name] for name in names]
        self._schema = pa.schema([(name, column.arrow) for name, column in zip(names, self._columns, strict=True)])

    def of_batches(self, found: Sequence[StoredBatch], origin: RowOrigin) -> Iterator[pa.RecordBatch]:
        """Yield one row for each batch whose last offset is in the range.

        So a batch over the border of two ranges is counted once, and one that begins before the first range is counted
        there.
        """
        owned = [item for item in found if item.batch.offset_end <= origin.span.offset_end]
        if owned:
            yield self._arrow(Part([item.batch for item in owned], [item.is_aborted for item in owned], origin))

    def of_records(self, found: Sequence[StoredBatch], origin: RowOrigin) -> Iterator[pa.RecordBatch]:
        """Yield one row for each record in the range, except for control records.

        :raises BrokerRefused: A batch cannot be decoded.
        """
        part = Part([], [], origin)
        from_bytes = 0
        for batch, is_aborted in found:
            if batch.is_control:
                continue
            part.rows.extend(decoded_records(batch, origin))
            part.is_aborted.extend([is_aborted] * (len(part.rows) - len(part.is_aborted)))
            from_bytes += batch.size_bytes
            if len(part.rows) > _ROWS_MAX or from_bytes > _ROWS_FROM_BYTES_MAX:
                yield self._arrow(part)
                part, from_bytes = Part([], [], origin), 0
        if part.rows:
            yield self._arrow(part)

    def _arrow(self, part: Part) -> pa.RecordBatch:
        arrays = [pa.array(column.values(part), type=column.arrow) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def decoded_records(batch: Batch, origin: RowOrigin) -> Iterable[Any]:
    """Decode the records of a batch that are in the range.

    :raises BrokerRefused: The batch cannot be decoded.
    """
    try:
        records = records_in(batch)
    except (KafkaError, ValueError) as error:
        where = f"offset {batch.base_offset} of {origin.span}"
        raise unreadable_error(origin.cluster, where, error) from error
    begin, end = origin.span.offset_begin, origin.span.offset_end
    if begin <= batch.base_offset and batch.offset_end <= end:
        return records
    return [record for record in records if begin <= record.offset < end]
