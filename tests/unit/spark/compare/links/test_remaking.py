"""What tasks return of slices whose records came out of the projection of expressions."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa

from isthmus.engine.batches.rebatch import Record
from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.links.transform import OnError, Transform
from isthmus.spark.compare.links.changed import ChangedSlice, pack_offsets
from isthmus.spark.compare.links.remaking import CheckRows, check_results, read_findings
from isthmus.spark.transforms.expressions import Compiled

TRANSFORM = Transform(where="true")
COMPILED = Compiled((TRANSFORM,), (), ((),), (False,))
KEPT = json.dumps({"w": True}).encode()


def part(number: int, *, lacking: bytes = b"") -> ChangedSlice:
    begin = 10 * number
    return ChangedSlice(
        number=number,
        transform=TRANSFORM.digest,
        on_error=OnError.STOP,
        source_alias="east",
        source=OffsetRange("orders", 0, begin, begin + 10),
        target_alias="west",
        target=OffsetRange("orders", 0, 0, 0),
        ranges=(),
        copied_to=100,
        lacking=lacking,
    )


def rows_of(one: ChangedSlice) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    """Three records of a slice, between the rows that begin and end it."""
    begin = one.source.offset_begin
    records = [Record(begin + n, 1, b"k", b"v", []) for n in range(3)]
    return [
        (None, pickle.dumps(one), None),
        *[(KEPT, None, pickle.dumps((tuple(each), 0, []))) for each in records],
        (None, b"", pickle.dumps((0, 100, []))),
    ]


def check(parts: list[ChangedSlice], *, lists_missing: bool, rows_max: int) -> list[pa.RecordBatch]:
    rows = [row for one in parts for row in rows_of(one)]
    batches = [
        pa.record_batch(
            [pa.array(column, pa.binary()) for column in zip(*rows[at : at + rows_max], strict=True)],
            names=["_result", "_slice", "_origin"],
        )
        for at in range(0, len(rows), rows_max)
    ]
    return list(check_results({}, COMPILED, CheckRows(lists_missing=lists_missing), batches))


def test_slices_that_share_a_batch_keep_what_each_found() -> None:
    """However the rows of slices are cut, what the target lacks of each is listed."""
    expected = [(number, 10 * number + n) for number in range(3) for n in range(3)]
    for rows_max in (100, 4, 1):
        found = read_findings(
            (row["slice"], row["findings"])
            for batch in check([part(n) for n in range(3)], lists_missing=False, rows_max=rows_max)
            for row in batch.to_pylist()
        )
        parts = [part(number, lacking=one.lacking) for number, one in sorted(found.items())]
        assert [one.lacking for one in parts] == [pack_offsets([10 * n, 10 * n + 1, 10 * n + 2]) for n in range(3)]
        listed = [
            (row["slice"], row["offset"])
            for batch in check(parts, lists_missing=True, rows_max=rows_max)
            for row in batch.to_pylist()
        ]
        assert listed == expected
