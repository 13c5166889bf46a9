"""Digests, and which rows come of which batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import BrokerRefused
from isthmus.kafka.batches.batch import HEADER_BYTES, LOG_APPEND_TIME, Batch, scan, stamp
from isthmus.kafka.log.reading import OffsetRange, StoredBatch, modern
from isthmus.spark.rows import BATCH_COLUMNS, RECORD_COLUMNS, RowOrigin, Rows, batch_digest
from testing.records.stored import Given, message_sets

Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
NONE: Final[Fields] = (None, None, [])
SEPTEMBER: Final = 1_725_000_000_000


def batch_of(records: Sequence[Fields], *, base: int = 0, codec: int = 0, timestamp: int = SEPTEMBER) -> Batch:
    """The records as a broker would store them."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, 77, 0, 5, 1 << 24)
    for delta, (key, value, headers) in enumerate(records):
        builder.append(delta, timestamp + delta, key, value, headers)
    return next(scan(base.to_bytes(8, "big") + bytes(builder.build())[8:]))


def digest_of(fields: Fields) -> bytes:
    (row,) = rows_of([batch_of([fields])], ["digest"])
    return bytes(row["digest"])


def rows_of(
    batches: Sequence[Batch], names: Sequence[str], *, begin: int = 0, end: int = 1000, by_record: bool = True
) -> list[dict[str, Any]]:
    """The rows of a range, with these columns."""
    origin = RowOrigin("east", 5, OffsetRange("orders", 3, begin, end))
    found = [StoredBatch(batch, False) for batch in batches]
    rows = Rows(RECORD_COLUMNS if by_record else BATCH_COLUMNS, names)
    made = rows.of_records(found, origin) if by_record else rows.of_batches(found, origin)
    return [row for part in made for row in part.to_pylist()]


maybe_bytes = st.none() | st.binary(max_size=6)
records = st.tuples(maybe_bytes, maybe_bytes, st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=3))


@given(records, records)
def test_records_have_the_same_digest_only_if_they_are_equal(one: Fields, other: Fields) -> None:
    """Null is not empty, headers have an order, and no byte may move from one field to another."""
    assert (digest_of(one) == digest_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, b"", []), (b"", None, [])),
        ((None, None, []), (b"", b"", [])),
        ((b"a", b"b", []), (b"ab", b"", [])),
        ((None, b"v", [("a", b"1"), ("b", b"2")]), (None, b"v", [("b", b"2"), ("a", b"1")])),
        ((None, b"v", [("a", None)]), (None, b"v", [("a", b"")])),
        ((None, b"v", [("a", b"1")]), (None, b"v", [("a", b"1"), ("a", b"1")])),
    ],
)
def test_records_that_are_nearly_equal(one: Fields, other: Fields) -> None:
    """What is easily mixed up is told apart."""
    assert digest_of(one) != digest_of(other)


def test_raw_copy_has_the_digest_of_its_source() -> None:
    """Another producer id, sequence, epoch and checksum are no difference; another byte is."""
    batch = batch_of([(b"k", b"v", [("h", b"1")])] * 5, base=120)
    copy = next(scan(stamp(batch, 4711, 0, 120) + bytes(batch.view[HEADER_BYTES:])))
    changed = bytearray(copy.view)
    changed[-1] ^= 1

    assert batch_digest(copy) == batch_digest(batch)
    assert batch_digest(next(scan(changed))) != batch_digest(batch)


def test_what_changes_timestamps_changes_the_digest() -> None:
    """The same records at other times, or under the broker's own stamp, are not the same."""
    batch = batch_of([NONE, NONE])
    stamped = batch._replace(attributes=batch.attributes | LOG_APPEND_TIME)

    assert len({batch_digest(b) for b in (batch, stamped, batch_of([NONE, NONE], timestamp=SEPTEMBER + 1))}) == 3


def test_batch_belongs_to_the_range_of_its_last_offset() -> None:
    """A batch over a border is counted once; of one that begins before the log does, what is in it."""
    batches = [batch_of([NONE] * 10, base=base) for base in (0, 10, 20)]

    def counted(begin: int, end: int) -> list[tuple[int, int]]:
        # A reader delivers what overlaps the range.
        overlapping = [batch for batch in batches if batch.offset_end > begin and batch.base_offset < end]
        rows = rows_of(overlapping, ["base_offset", "record_count"], begin=begin, end=end, by_record=False)
        return [(row["base_offset"], row["record_count"]) for row in rows]

    assert counted(0, 30) == [(0, 10), (10, 10), (20, 10)]
    assert counted(0, 15) == [(0, 10)]
    assert counted(15, 30) == [(10, 5), (20, 10)]
    assert counted(15, 18) == []


@pytest.mark.parametrize("codec", range(5))
def test_records_of_a_range(codec: int) -> None:
    """Of the batches at its borders, only the records inside are rows."""
    batches = [batch_of([(b"%d" % n, None, []) for n in range(10)], base=base, codec=codec) for base in (0, 10)]

    rows = rows_of(batches, ["topic", "partition", "range", "offset", "timestamp_ms", "key"], begin=8, end=12)

    assert [(row["offset"], row["key"]) for row in rows] == [(8, b"8"), (9, b"9"), (10, b"0"), (11, b"1")]
    assert rows[0] == {
        "topic": "orders",
        "partition": 3,
        "range": 5,
        "offset": 8,
        "timestamp_ms": SEPTEMBER + 8,
        "key": b"8",
    }


@pytest.mark.parametrize("codec", [1, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_old_message_sets(magic: int, codec: int) -> None:
    """Messages from before Kafka 0.11 are rows like any other; those of magic 0 have no timestamp."""
    messages = [Given(SEPTEMBER, b"k", None, [])] * 3
    batches = [modern(batch) for batch in scan(message_sets(magic, codec, messages))]

    rows = rows_of(batches, ["offset", "timestamp_ms", "headers", "value"])

    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert {row["timestamp_ms"] for row in rows} == {SEPTEMBER if magic else -1}
    assert all(row["headers"] == [] and row["value"] is None for row in rows)


def test_many_rows_come_in_parts() -> None:
    """What one Arrow batch holds is bounded, whatever a broker sends at once."""
    origin = RowOrigin("east", 0, OffsetRange("orders", 0, 0, 100_000))
    found = [StoredBatch(batch_of([NONE] * 4000, base=base), False) for base in range(0, 40_000, 4000)]

    parts = list(Rows(RECORD_COLUMNS, ["offset"]).of_records(found, origin))

    assert sum(part.num_rows for part in parts) == 40_000
    assert max(part.num_rows for part in parts) <= 14_000


def test_undecodable_batch_is_named() -> None:
    """Bytes that are no records are an error that says where, and in which cluster."""
    batch = batch_of([(b"key", b"value", [])], base=42)
    broken = bytearray(batch.view)
    broken[HEADER_BYTES] = 0x7F

    with pytest.raises(BrokerRefused, match=r"east .* offset 42 of orders-3") as refusal:
        rows_of(list(scan(broken)), ["offset"])
    assert refusal.value.name == "CORRUPT_MESSAGE"
