"""The functions of the transform. A run has a copy of this file beside its configuration, and `soak.changed.rules` says
what has to come of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def turned(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave some out, and change the keys and values of all others."""
    values = rows.column("value").to_pylist()
    kept = [place for place, value in enumerate(values) if value is not None and sum(value) % 4]
    rows = rows.take(pa.array(kept, pa.int32()))
    rows = _with(rows, "value", [values[place][::-1] for place in kept])
    return _with(rows, "key", [b"turned"] * len(kept))


def checked(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Fail for some, and leave all others as they are."""
    for value in rows.column("value").to_pylist():
        if value is not None and sum(value) % 8 == 0:
            raise ValueError("its bytes have a sum that is not taken")
    return rows


def _with(rows: pa.RecordBatch, name: str, values: Sequence[bytes]) -> pa.RecordBatch:
    return rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, pa.binary()))
