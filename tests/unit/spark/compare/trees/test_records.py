"""Records of a tree as rows: copies are told from what came in, and are what they are copies of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from isthmus.engine.batches.rebatch import Record, encode
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.model.copyflags import FlagsHeader, distributor_producer_id
from isthmus.spark.compare.trees.records import decode_records, read_stored
from isthmus.spark.rows import RowOrigin

SEPTEMBER = 1_725_000_000_000
SPAN = OffsetRange("flights", 0, 0, 100)
ORIGIN = RowOrigin("ams", 0, SPAN)
COPIER = distributor_producer_id(2, 77)


def records(begin: int, end: int, offset: int | None = None, **fields: Any) -> list[Record]:
    """Records that tell their number, from an offset on."""
    first = begin if offset is None else offset
    return [
        Record(first + n - begin, SEPTEMBER + n, b"k", b"%d" % n, [("h", b"1")])._replace(**fields)
        for n in range(begin, end)
    ]


def batch(given: Sequence[Record], codec: int = 0, producer_id: int = 5) -> StoredBatch:
    """As a broker stores it."""
    data = given[0].offset.to_bytes(8) + bytes(encode(given, codec).view)[8:]
    return StoredBatch(next(scan(data))._replace(producer_id=producer_id), False)


@pytest.mark.parametrize("way", ["stored", "decoded"])
def test_a_copy_is_what_it_is_a_copy_of(way: str) -> None:
    """However it was batched and compressed, and at other offsets; but another timestamp makes it another record."""

    def columns(found: list[StoredBatch]) -> tuple[list[int], list[bool], list[bytes]]:
        columns = read_stored(found, SPAN) if way == "stored" else decode_records(found, ORIGIN, None)
        return columns.offsets.tolist(), columns.is_local.tolist(), columns.digests

    offsets, is_local, digests = columns([batch(records(0, 4)), batch(records(4, 9), 3)])
    assert (offsets, is_local) == (list(range(9)), [True] * 9)
    copied = [batch(records(2, 7, 20), 4, COPIER), batch(records(50, 51, 30))]
    offsets, is_local, copies = columns(copied)
    assert (offsets, is_local) == ([*range(20, 25), 30], [False] * 5 + [True])
    assert (copies[:5], copies[5] in digests) == (digests[2:7], False)
    (late,) = columns([batch(records(2, 3, timestamp=SEPTEMBER))])[2]
    assert late not in digests


def test_what_lies_outside_of_a_slice_is_of_another_one() -> None:
    """Batches over its borders are read there too."""
    span = SPAN._replace(offset_begin=2, offset_end=5)
    found = [batch(records(0, 4)), batch(records(4, 9))]
    assert read_stored(found, span).offsets.tolist() == [2, 3, 4]
    assert decode_records(found, ORIGIN._replace(span=span), None).offsets.tolist() == [2, 3, 4]


def test_flags_in_a_header_are_no_part_of_a_record() -> None:
    """By them it is told what was distributed, whoever wrote it; one that says nothing is of a record that came in."""
    header = FlagsHeader(name="f")
    headers: list[list[tuple[str, bytes | None]]] = [
        [("a", b"1")],
        [("a", b"1"), ("f", b"\x02")],
        [("f", b"\x00\x02"), ("a", b"1")],
    ]
    given = [record._replace(headers=each) for record in records(0, 1) for each in headers]
    found = decode_records([batch([record]) for record in given], ORIGIN, header)
    assert found.is_local.tolist() == [True, False, True]
    assert len({*found.digests}) == 1
    assert not decode_records([batch(given[:1], producer_id=COPIER)], ORIGIN, header).is_local.any()
