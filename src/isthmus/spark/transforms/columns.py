"""Records as Arrow columns, as Spark's own Kafka source has them, and back.

`topic`, `partition` and `offset` place a row: a transform may leave out rows, and has to leave these as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Portion

_HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_UTC: Final = pa.timestamp("ms", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _UTC),
        ("timestampType", pa.int32()),
    ]
)
_PLACING: Final = ("topic", "partition")


def to_columns(portion: Portion) -> pa.RecordBatch:
    """Build the rows of a portion.

    :raises ValueError: A header has a name that is not UTF-8: a string of Arrow cannot have it.
    """
    lane, records, are_appended = portion
    try:
        headers = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
        return pa.record_batch(
            [
                pa.array([record.key for record in records], pa.binary()),
                pa.array([record.value for record in records], pa.binary()),
                pa.array(headers, _HEADERS),
                pa.array([lane.source_topic] * len(records), pa.string()),
                pa.array([lane.partition] * len(records), pa.int32()),
                pa.array([record.offset for record in records], pa.int64()),
                pa.array([record.timestamp for record in records], pa.int64()).cast(_UTC),
                pa.array([int(is_appended) for is_appended in are_appended], pa.int32()),
            ],
            schema=SCHEMA,
        )
    except UnicodeEncodeError as error:
        raise ValueError("a header has a name that is not UTF-8") from error


def from_columns(rows: Any, given: pa.RecordBatch) -> list[Record]:
    """Return the records of the rows that a transform returned.

    :raises ValueError: They have other columns than the given ones, or other or more rows.
    """
    if not isinstance(rows, pa.RecordBatch):
        raise ValueError(f"the function returned {type(rows).__name__}, not a pyarrow.RecordBatch")
    if rows.schema.names != SCHEMA.names or rows.schema.types != SCHEMA.types:
        found = ", ".join(f"{field.name} {field.type}" for field in rows.schema)
        raise ValueError(f"the function returned other columns than it was given: {found}")
    _check_places(rows, given)
    key, value, headers, offset = (rows.column(name).to_pylist() for name in ("key", "value", "headers", "offset"))
    timestamp = rows.column("timestamp").cast(pa.int64()).to_pylist()
    if None in timestamp:
        raise ValueError("the function returned a row without a timestamp")
    return [Record(*each) for each in zip(offset, timestamp, key, value, map(_to_headers, headers), strict=True)]


def _check_places(rows: pa.RecordBatch, given: pa.RecordBatch) -> None:
    """Check that the rows are some of the given ones, in their order.

    :raises ValueError: They are not.
    """
    offsets, known = rows.column("offset").to_pylist(), set(given.column("offset").to_pylist())
    if not known.issuperset(offsets) or any(b <= a for a, b in pairwise(offsets)):
        raise ValueError("the function returned other rows than it was given, or more, or in another order")
    for name in _PLACING:
        if set(rows.column(name).to_pylist()) - {given.column(name)[0].as_py()}:
            raise ValueError(f"the function changed the column {name}")


def _to_headers(headers: Sequence[Any] | None) -> list[tuple[str, bytes | None]]:
    found = [(None if each is None else each["key"], None if each is None else each["value"]) for each in headers or ()]
    if any(name is None for name, _ in found):
        raise ValueError("the function returned a header without a key")
    return [(str(name), value) for name, value in found]
