"""What the contender `isthmus-function` does with records: hide the tail numbers of flights, by columns of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def mask_tail_numbers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Put an empty text in the place of each tail number."""
    masked = pc.replace_substring_regex(rows.column("value"), pattern='"tailnum":"[^"]*"', replacement='"tailnum":""')
    return rows.set_column(rows.schema.get_field_index("value"), rows.schema.field("value"), masked)
