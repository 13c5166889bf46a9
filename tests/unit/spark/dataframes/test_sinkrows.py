"""Rows in Arrow become records of Kafka, and a digest of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pyarrow as pa
import pytest

from isthmus.engine.batches.rebatch import records_of
from isthmus.errors import RowRefused
from isthmus.spark.dataframes.sinkpartitions import murmur2
from isthmus.spark.dataframes.sinkrows import BATCH_BYTES, RowEncoder

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
MS = 1_725_000_000_000


def arrow(rows: list[dict[str, Any]], *, value: pa.DataType | None = None) -> pa.RecordBatch:
    """Rows as Spark gives them to a sink."""
    types = {
        "key": pa.binary(),
        "value": value or pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "headers": HEADERS,
    }
    names = [name for name in types if any(name in row for row in rows)]
    columns = [pa.array([row.get(name) for row in rows], types[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


async def count(topic: str) -> int:
    return 3


def encode(*batches: pa.RecordBatch, topic: str = "", codec: int = 0) -> tuple[dict[Any, list[Any]], RowEncoder]:
    """The records of each partition, decoded."""
    encoder = RowEncoder(topic, codec, count)
    found: dict[Any, list[Any]] = {}

    async def run() -> None:
        for batch in batches:
            for key, built in await encoder.encode(batch):
                found.setdefault(key, []).extend(records_of(built))
        for key, built in encoder.finish():
            found.setdefault(key, []).extend(records_of(built))

    asyncio.run(run())
    return found, encoder


@pytest.mark.parametrize("codec", range(5))
def test_records_are_the_rows(codec: int) -> None:
    """Keys, values, timestamps and headers arrive, null is null and empty is empty."""
    rows: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "topic": "a", "partition": 1, "timestamp": MS * 1000, "headers": [("h", b"x")]},
        {"key": None, "value": None, "topic": "b", "partition": 2, "timestamp": MS * 1000 + 1_999, "headers": None},
        {"key": b"", "value": b"", "topic": "a", "partition": 1, "timestamp": MS * 1000, "headers": [("h", None)] * 2},
    ]
    for row in rows:
        row["headers"] = row["headers"] and [{"key": key, "value": value} for key, value in row["headers"]]
    found, encoder = encode(arrow(rows), codec=codec)

    assert found.keys() == {("a", 1), ("b", 2)}
    assert [each[1:] for each in found["a", 1]] == [
        (MS, b"k", b"v", [("h", b"x")]),
        (MS, b"", b"", [("h", None), ("h", None)]),
    ]
    assert [each[1:] for each in found["b", 2]] == [(MS + 1, None, None, [])]
    assert encoder.digest.rows == 3


def test_strings_are_their_bytes_in_every_width() -> None:
    """A value of string, also where Spark uses large types, and a slice of a batch."""
    rows = [{"value": text, "key": text.encode()} for text in ("", "grün", "x" * 1000)]
    for kind in (pa.string(), pa.large_string()):
        found, _ = encode(arrow(rows, value=kind).slice(1), topic="t")
        assert sorted(r.value for records in found.values() for r in records) == ["grün".encode(), b"x" * 1000]


def test_keys_choose_the_partition_and_rows_keep_their_order() -> None:
    """As with Kafka's own producer, whatever is encoded in between."""
    rows = [{"key": b"%d" % (n % 50), "value": b"%d" % n} for n in range(5_000)]
    found, _ = encode(*(arrow(rows[n : n + 700]) for n in range(0, 5_000, 700)), topic="t")

    for (_, partition), records in found.items():
        numbers = [int(record.value) for record in records]
        assert numbers == sorted(numbers)
        assert {(murmur2(record.key) & 0x7FFFFFFF) % 3 for record in records} == {partition}
    assert sum(map(len, found.values())) == 5_000


def test_large_values_have_batches_of_their_own() -> None:
    """A batch is full before it is too large; one record may be larger."""
    rows = [{"value": bytes([n]) * (n * 100_000)} for n in range(1, 21)]
    encoder = RowEncoder("t", 0, count)
    batches = asyncio.run(encoder.encode(arrow(rows))) + encoder.finish()

    sizes = [(built.size_bytes, built.record_count) for _, built in batches]
    assert all(size <= BATCH_BYTES or records == 1 for size, records in sizes)
    assert sum(records for _, records in sizes) == 20


def test_the_digest_depends_on_rows_and_not_on_their_order() -> None:
    """Any other row is another digest, and what is only compared has the same as what is written."""
    chance = random.Random(1)
    rows = [{"key": b"%d" % n, "value": b"v", "partition": None, "timestamp": None} for n in range(300)]
    _, first = encode(arrow(rows), topic="t")
    other = chance.sample(rows, len(rows))
    _, second = encode(arrow(other[:100]), arrow(other[100:]), topic="t")
    compared = RowEncoder("t", 0, count)
    compared.compare(arrow(other))

    assert str(first.digest) == str(second.digest) == str(compared.digest)
    for change in ({"key": b"x"}, {"key": None}, {"value": b""}, {"partition": 0}, {"timestamp": MS}):
        _, changed = encode(arrow([{**rows[0], **change}, *rows[1:]]), topic="t")
        assert str(changed.digest) != str(first.digest), change
    _, elsewhere = encode(arrow(rows), topic="u")
    assert str(elsewhere.digest) != str(first.digest)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"topic": None}, "null in its column topic"),
        ({"partition": 3}, "'t'.*column partition.*no partition 3"),
        ({"partition": -1}, "'t'.*column partition.*below 0"),
        ({"timestamp": -2_000}, "'t'.*column timestamp.*before 1970"),
        ({"headers": [{"key": None, "value": b""}]}, "'t'.*column headers.*no key"),
    ],
)
def test_rows_that_cannot_be_written_name_topic_and_column(row: dict[str, Any], told: str) -> None:
    """With what to do about it."""
    with pytest.raises(RowRefused, match=told) as raised:
        encode(arrow([{"value": b"v", "topic": "t"}, {"value": b"v", "topic": "t", **row}]))
    assert raised.value.hint
