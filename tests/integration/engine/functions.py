"""Functions over Arrow batches, which tests let hang and fail."""

from __future__ import annotations

import threading

import pyarrow as pa

from testing.patience import TERM_S

GATE = threading.Event()
BAD: set[tuple[str, int]] = set()
"""Topics and numbers that cannot be changed."""


def even_doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The even numbers among the values, doubled."""
    topic = rows.column("topic")[0].as_py()
    numbers = [int(value) for value in rows.column("value").to_pylist()]
    for number in numbers:
        if (topic, number) in BAD:
            raise RuntimeError(f"{number} is bad")
    kept = [place for place, number in enumerate(numbers) if number % 2 == 0]
    values = [b"%d" % (2 * numbers[place]) for place in kept]
    return rows.take(pa.array(kept, pa.int32())).set_column(1, "value", pa.array(values, pa.binary()))


def hanging_on_one(rows: pa.RecordBatch) -> pa.RecordBatch:
    """`even_doubled`, which waits for the gate if the rows are of partition 1."""
    if rows.column("partition")[0].as_py() == 1:
        GATE.wait(TERM_S)
    return even_doubled(rows)


def as_they_are(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows
