"""Batches taken apart and put together again hold the same records at the same offsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch

from isthmus.engine.batches.rebatch import Record, dense, encode, join, records_of, split
from isthmus.kafka.batches.batch import HEADER_BYTES, LOG_APPEND_TIME, Batch, crc_ok, scan
from testing.records.stored import PLAIN, Given, given_records, message_sets, one, stored

CODECS = st.integers(0, 4)
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_BLOCKS_ARE_INDEPENDENT = 0x20
MANY = st.lists(given_records, min_size=1, max_size=12)


def placed(base: int, records: Sequence[Given]) -> list[Record]:
    """The records at offsets from `base` on."""
    return [Record(base + n, *record) for n, record in enumerate(records)]


def assert_whole(batch: Batch) -> None:
    """A batch as a broker takes it: dense, checked, and its bytes agree with what it says of itself."""
    (read,) = scan(batch.view)
    assert batch.is_dense
    assert crc_ok(batch)
    assert (read.record_count, read.codec, read.crc) == (batch.record_count, batch.codec, batch.crc)
    assert (read.base_timestamp, read.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)
    assert batch.max_timestamp == max(record.timestamp for record in records_of(batch))
    assert batch.leader_epoch == -1


@given(base=st.integers(0, 2**40), records=MANY, codec=CODECS)
def test_encoded_records_are_decoded_alike(base: int, records: list[Given], codec: int) -> None:
    """Every codec there and back, also by kafka-python where it can."""
    batch = encode(placed(base, records), codec)

    assert_whole(batch)
    assert batch.codec == codec
    assert records_of(batch) == placed(base, records)
    if codec < 2:
        theirs = [Given(r.timestamp, r.key, r.value, list(r.headers)) for r in PythonBatch(bytes(batch.view))]
        assert theirs == records


@given(base=st.integers(0, 2**40), groups=st.lists(MANY, min_size=1, max_size=5), codec=CODECS)
def test_joined_batches_hold_all_records(base: int, groups: list[list[Given]], codec: int) -> None:
    """Batches that follow one another become one, wherever runs of them begin."""
    offset, batches, expected = base, [], []
    for group in groups:
        batches.append(one(stored(offset, group, codec=codec)))
        expected += placed(offset, group)
        offset += len(group)
    run = b"".join(batch.view for batch in batches[1:])
    spanned = (
        batches
        if len(batches) < 3
        else [
            batches[0],
            batches[1]._replace(offset_end=offset, record_count=offset - batches[1].base_offset, view=memoryview(run)),
        ]
    )

    for parts in (batches, spanned):
        joined = join(parts)
        assert_whole(joined)
        assert (joined.base_offset, joined.offset_end, joined.codec) == (base, offset, codec)
        assert records_of(joined) == expected


def test_brokers_can_read_what_was_compressed_here() -> None:
    """Kafka reads no LZ4 frames whose blocks refer to one another (KIP-57), also where there are several of them."""
    batch = encode(placed(0, [PLAIN._replace(value=bytes(200_000))] * 2), 3)
    flags = batch.view[HEADER_BYTES + 4]
    assert bytes(batch.view[HEADER_BYTES : HEADER_BYTES + 4]) == LZ4_MAGIC
    assert flags & LZ4_BLOCKS_ARE_INDEPENDENT


@pytest.mark.parametrize("codec", range(5))
def test_header_keys_that_are_no_utf_8(codec: int) -> None:
    """They pass through every way of rebuilding a batch as the bytes they were."""
    strange = PLAIN._replace(headers=[("\udcff\udcfe", b"x"), ("a", None)])
    whole = encode(placed(7, [PLAIN, strange, PLAIN]), codec)
    expected = placed(7, [PLAIN, strange, PLAIN, PLAIN])

    assert records_of(whole) == expected[:3]
    joined = join([whole, encode(placed(10, [PLAIN]), codec)])
    assert_whole(joined)
    assert records_of(joined) == expected
    assert [record for part in dense(joined, begin=8) for record in records_of(part)] == expected[1:]
    assert [record for part in split(joined, 100) for record in records_of(part)] == expected
    with pytest.raises(ValueError, match="other records"):
        join([whole._replace(record_count=4, offset_end=11)])


def test_what_cannot_be_joined_is_an_error() -> None:
    """Undecodable batches, and headers that promise other records than there are, are never joined."""
    whole = one(stored(0, [PLAIN] * 3))
    with pytest.raises(ValueError, match="other records"):
        join([whole._replace(record_count=4, offset_end=4)])
    squeezed = bytearray(stored(0, [PLAIN] * 30, codec=4))
    squeezed[70] ^= 0xFF
    with pytest.raises(ValueError, match="cannot be decoded"):
        join([one(bytes(squeezed))])


def test_nothing_damaged_is_decoded() -> None:
    """Batches that pass as bytes are not looked at when they come: whoever decodes one compares its checksum first."""
    spoilt = bytearray(stored(0, [PLAIN] * 3))
    spoilt[-1] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        records_of(one(bytes(spoilt)))


@given(
    base=st.integers(0, 2**40),
    records=st.lists(given_records, min_size=2, max_size=40),
    codec=CODECS,
    bytes_max=st.integers(70, 800),
)
def test_split_batches_fit(base: int, records: list[Given], codec: int, bytes_max: int) -> None:
    """Every part is small enough or a single record, and together they are the batch, however often it is split."""
    batch = one(stored(base, records, codec=codec))
    parts = split(batch, bytes_max)
    again = [part for large in split(batch, bytes_max * 3) for part in split(large, bytes_max)]

    for found in (parts, again):
        assert [record for part in found for record in records_of(part)] == placed(base, records)
        assert [part.base_offset for part in found[1:]] == [part.offset_end for part in found[:-1]]
        for part in found:
            assert_whole(part)
            assert part.size_bytes <= bytes_max or part.record_count == 1


@given(
    base=st.integers(0, 2**40),
    records=MANY,
    codec=CODECS,
    steps=st.lists(st.integers(1, 3), min_size=12, max_size=12),
    skipped=st.integers(0, 10),
)
def test_batches_with_holes_become_dense(
    base: int, records: list[Given], codec: int, steps: list[int], skipped: int
) -> None:
    """One batch for each run of offsets without a hole, from where we stand."""
    deltas = [sum(steps[:n]) for n in range(len(records))]
    batch = one(stored(base, records, codec=codec, deltas=deltas))
    begin = base + skipped
    expected = [Record(base + delta, *record) for delta, record in zip(deltas, records, strict=True)]

    parts = dense(batch, begin=begin)

    assert [record for part in parts for record in records_of(part)] == [r for r in expected if r.offset >= begin]
    assert all(here.offset_end < there.base_offset for here, there in pairwise(parts))
    for part in parts:
        assert_whole(part)


def test_stamps_of_the_broker_are_written_into_the_records() -> None:
    """With LogAppendTime all records show the stamp of their batch, and the copy needs no such bit."""
    records = [PLAIN._replace(timestamp=1000 + n) for n in range(3)]
    (part,) = dense(one(stored(5, records, attributes=LOG_APPEND_TIME)))
    assert {record.timestamp for record in records_of(part)} == {1002}
    assert not part.is_log_append_time
    assert_whole(part)


@pytest.mark.parametrize("times", [[-1, 5], [5, -1, 7], [-1, -1, 5, 6], [-1, 5, -1], [-1, -1]])
def test_records_without_a_timestamp_get_none(times: list[int]) -> None:
    """-1 says that there is no timestamp; it does not become that of a neighbour."""
    batch = one(stored(0, [PLAIN._replace(timestamp=time) for time in (0, *times)]))
    for parts in (dense(batch, begin=1), split(batch, 80)[1:]):
        assert [record.timestamp for part in parts for record in records_of(part)] == times


@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_become_batches(magic: int, codec: int) -> None:
    """Messages of magic 0 and 1 keep their offsets; only magic 1 has timestamps."""
    given = [Given(1000 + n, b"%d" % n, None if n == 2 else b"value", []) for n in range(5)]
    parts = [part for batch in scan(message_sets(magic, codec, given)) for part in dense(batch)]

    records = [record for part in parts for record in records_of(part)]
    assert [record.offset for record in records] == list(range(5))
    assert [record.timestamp for record in records] == ([-1] * 5 if magic == 0 else [1000 + n for n in range(5)])
    assert [record.key for record in records] == [b"%d" % n for n in range(5)]
    assert [record.value for record in records] == [b"value", b"value", None, b"value", b"value"]
    for part in parts:
        assert_whole(part)


def test_broken_message_set_is_an_error() -> None:
    """A message set has a checksum too, and it is checked."""
    data = bytearray(message_sets(1, 0, [PLAIN]))
    data[-1] ^= 1
    (batch,) = scan(data)
    with pytest.raises(ValueError, match="checksum"):
        records_of(batch)
