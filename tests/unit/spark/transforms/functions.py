"""Functions over Arrow batches, as users write them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def as_they_are(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def upper(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Values in capitals, without those that begin with a minus; a value "bad" is an error."""
    kept = rows.filter(pc.invert(pc.starts_with(rows.column("value").cast(pa.string()), "-")))
    values = [value.upper() for value in kept.column("value").to_pylist()]
    if b"BAD" in values:
        raise RuntimeError("a bad value")
    return kept.set_column(1, "value", pa.array(values, pa.binary()))


def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([column, column]) for column in rows.columns], schema=rows.schema
    )


def reversed_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array(range(len(rows) - 1, -1, -1)))


def without_a_column(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns(["headers"])


def moved(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.set_column(4, "partition", pa.array([7] * len(rows), pa.int32()))


def nothing(rows: pa.RecordBatch) -> Any:
    return None


def away(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A function whose service does not answer."""
    raise ConnectionRefusedError("the service is away")


def away_later(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A function whose service is gone once it comes to a value "late", and for single records."""
    if b"late" in rows.column("value").to_pylist() or len(rows) == 1:
        raise ConnectionRefusedError("the service is away")
    return rows


NO_FUNCTION = 7
