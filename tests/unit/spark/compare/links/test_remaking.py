"""What tasks read and return of slices whose records are made again."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa

from isthmus.engine.batches.rebatch import Record
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.model.links.transform import OnError, RecordFunction, Transform
from isthmus.model.links.verdict import DiscrepancyKind
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.links.changed import ChangedSlice, pack_offsets, unpack_offsets
from isthmus.spark.compare.links.remaking import (
    CheckRows,
    Remaker,
    SourceSlice,
    check_by_function,
    check_results,
    read_findings,
)
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.transforms.expressions import Compiled
from testing.records.stored import PLAIN
from tests.unit.spark.logs import batch, committed, logs

TRANSFORM = Transform(where="true")
COMPILED = Compiled((Prepared(TRANSFORM),), (), ((),), (False,))
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


def test_what_a_source_aborted_is_told_where_its_cleaner_may_have_been() -> None:
    """Its offsets tell what was never committed from what is gone."""
    stored = [*committed(batch(0)), StoredBatch(batch(1, [PLAIN, PLAIN]), is_aborted=True), *committed(batch(5))]
    for compacted, spans in ((True, [(1, 3)]), (False, [])):
        source = SourceSlice(logs(stored, []), part(0)._replace(compacted=compacted))
        assert [each.record.offset for some in source for each in some] == [0, 5]
        assert (list(source.aborted_spans), source.aborted) == (spans, 2)


def test_records_that_compress_well_are_passed_on_before_many_are_held() -> None:
    """However few bytes they take at the source."""
    stored = committed(*(batch(n * 6_000, [PLAIN] * 6_000) for n in range(3)))
    source = SourceSlice(logs(stored, []), part(0)._replace(source=OffsetRange("orders", 0, 0, 20_000)))
    first = iter(source)
    assert sum(len(next(first)) for _ in range(3)) == 12_000
    assert source.size_bytes == sum(each.batch.size_bytes for each in stored[:2])


def test_what_was_compared_before_a_function_failed_stays_found() -> None:
    """A call for the hint that fails takes nothing back; and what is missing is listed in full the second time."""
    many = [PLAIN._replace(value=b"v")] * 5_000
    stored = committed(batch(0, many), batch(5_000, [PLAIN._replace(value=b"late")]))
    whole = part(0)._replace(
        source=OffsetRange("orders", 0, 0, 6_000),
        target=OffsetRange("orders", 0, 2, 5_000),
        ranges=(MappedRange(2, 2, 4_998),),
        copied_to=6_000,
    )
    there = logs(stored, committed(batch(2, [PLAIN._replace(value=b"w"), *many[3:]])))
    function = Transform(python=RecordFunction("tests.unit.spark.transforms.functions", "away_later"))
    rows = list(check_by_function(there, whole, Remaker(function), CheckRows(lists_missing=False)))
    (found,) = read_findings((row["slice"], row["findings"]) for row in rows[0].to_pylist()).values()
    assert found.totals == {DiscrepancyKind.MISSING: 2, DiscrepancyKind.DIFFERENT: 1}
    assert (found.records, found.not_compared, found.uncompared[0].offset_begin) == (5_000, 1_000, 5_000)
    assert (unpack_offsets(found.lacking), found.unsteady_at) == ([0, 1], -1)
