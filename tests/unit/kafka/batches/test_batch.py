"""Batches as bytes, held against aiokafka's and kafka-python's own codecs."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch

from isthmus.kafka.batches.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    RECORDS_BEGIN,
    SEQUENCE_MASK,
    crc_ok,
    scan,
    spans,
    stamp,
)
from testing.records.stored import BUILDERS, CODECS, NONE, PLAIN, ZSTD, Given, given_records, marker, one, stored

DECODERS = {"aiokafka": AioBatch, "kafka-python": PythonBatch}


def decoded(decoder: Any, data: bytes) -> list[Given]:
    batch = decoder(data)
    assert batch.validate_crc()
    return [Given(r.timestamp, r.key, r.value, list(r.headers)) for r in batch]


@pytest.mark.parametrize("builder", BUILDERS)
@settings(max_examples=40)
@given(data=st.data(), records=st.lists(given_records, min_size=1, max_size=8), base=st.integers(0, 2**62))
def test_header_is_read_as_others_wrote_it(builder: str, data: st.DataObject, records: list[Given], base: int) -> None:
    """Offsets, counts, timestamps and codec are those of the batch, whoever built it."""
    codec = data.draw(CODECS[builder])
    batch = one(stored(base, records, codec=codec, builder=BUILDERS[builder]))
    theirs = PythonBatch(bytes(batch.view))

    assert (batch.base_offset, batch.offset_end) == (base, base + len(records))
    assert batch.record_count == len(records) == theirs.records_count
    assert batch.codec == theirs.compression_type
    assert (batch.base_timestamp, batch.max_timestamp) == (theirs.first_timestamp, theirs.max_timestamp)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.leader_epoch, batch.magic, batch.crc) == (theirs.leader_epoch, theirs.magic, theirs.crc)
    assert batch.size_bytes == len(batch.view)
    assert batch.is_dense
    assert crc_ok(batch)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("transactional", [False, True])
@settings(max_examples=40)
@given(
    records=st.lists(given_records, min_size=1, max_size=8),
    draw=st.data(),
    producer_id=st.integers(0, 2**62),
    epoch=st.integers(0, 2**15 - 1),
    sequence=st.integers(0, 2**40),
)
def test_stamped_batches_are_whole(
    decoder: str,
    transactional: bool,
    records: list[Given],
    draw: st.DataObject,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> None:
    """A stamped batch holds the same records under our producer, as others decode it."""
    codec = draw.draw(CODECS[decoder])
    source = one(stored(7, records, codec=codec, producer_id=99, attributes=DELETE_HORIZON))
    header = stamp(source, producer_id, epoch, sequence, transactional=transactional)
    data = header + bytes(source.view[HEADER_BYTES:])
    theirs = PythonBatch(data)

    assert decoded(DECODERS[decoder], data) == records
    assert data[RECORDS_BEGIN:] == source.view[RECORDS_BEGIN:]
    assert theirs.base_offset == 0
    assert theirs.size_in_bytes == len(data)
    assert (theirs.producer_id, theirs.producer_epoch) == (producer_id, epoch)
    assert theirs.base_sequence == sequence & SEQUENCE_MASK
    assert theirs.is_transactional is transactional
    assert theirs.attributes & (LOG_APPEND_TIME | CONTROL | DELETE_HORIZON) == 0


def test_sequences_wrap_as_the_broker_counts() -> None:
    """Behind 2^31 - 1 comes 0, also within a batch."""
    source = one(stored(0, [PLAIN] * 10))
    theirs = PythonBatch(stamp(source, 1, 0, 2**31 - 5) + bytes(source.view[HEADER_BYTES:]))
    assert (theirs.base_sequence, theirs.last_sequence) == (2**31 - 5, 4)
    assert PythonBatch(stamp(source, 1, 0, 2**31 + 5) + bytes(source.view[HEADER_BYTES:])).base_sequence == 5


def test_batch_cut_off_at_the_end_is_left_out() -> None:
    """Brokers cut answers anywhere: whole batches count, the rest comes with the next answer."""
    data = stored(0, [PLAIN] * 3) + stored(3, [PLAIN] * 2)
    for cut in range(len(data)):
        ends = [batch.offset_end for batch in scan(data[:cut])]
        assert ends == ([3] if cut >= len(data) // 2 and cut >= len(stored(0, [PLAIN] * 3)) else [])
        assert [batch.offset_end for batch, _ in spans(data[:cut], tiny_bytes=0, span_bytes=0)] == ends


@pytest.mark.parametrize("length", [-12, -1, 0, 48])
def test_impossible_lengths_are_errors(length: int) -> None:
    """A length that no batch can have ends the reading instead of repeating it."""
    data = bytearray(stored(0, [PLAIN]))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    for read in (scan(data), spans(data, tiny_bytes=1000, span_bytes=1000)):
        with pytest.raises(ValueError, match="0"):
            list(read)


def test_unknown_magic_is_an_error() -> None:
    """Bytes that are no record batch are not taken for one."""
    data = bytearray(stored(0, [PLAIN]))
    data[16] = 3
    with pytest.raises(ValueError, match="magic 3"):
        list(scan(data))


def test_any_flipped_bit_is_found() -> None:
    """The checksum covers all that a copy keeps, and a copy of what is damaged has a wrong one too."""
    data = stored(0, [PLAIN] * 3)
    for position in range(_CHECKED := 21, len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x10
        with pytest.raises(ValueError, match="checksum"):
            list(spans(broken, tiny_bytes=1000, span_bytes=0))
        (batch,) = scan(broken)
        assert not crc_ok(batch)
        copied = stamp(batch, 7, 0, 40) + bytes(batch.view[HEADER_BYTES:])
        assert not crc_ok(next(scan(copied)))
    assert _CHECKED == 21


def test_what_passes_as_it_is_goes_unseen() -> None:
    """A batch that may pass as the bytes it is goes unseen; tiny and unusual ones are looked at."""
    plain = stored(0, [PLAIN] * 3)

    def is_looked_at(data: bytes, *, tiny_bytes: int = 0) -> bool:
        broken = bytearray(data)
        broken[-1] ^= 1
        try:
            list(spans(broken, tiny_bytes=tiny_bytes, span_bytes=1000))
        except ValueError:
            return True
        return False

    assert not is_looked_at(plain)
    assert not is_looked_at(stored(0, [PLAIN], transactional=True))
    assert is_looked_at(plain, tiny_bytes=1000)
    assert is_looked_at(marker(0, 1, commit=True))
    assert is_looked_at(stored(0, [PLAIN], attributes=LOG_APPEND_TIME))
    assert is_looked_at(stored(0, [PLAIN] * 2, deltas=[0, 2]))


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Batches of a log, one after the other, with all that may break a run of tiny ones."""
    offset, log = draw(st.integers(0, 1000)), []
    for _ in range(draw(st.integers(1, 12))):
        count = draw(st.integers(1, 3))
        kind = draw(
            st.sampled_from(
                ["plain"] * 6
                + ["transaction"] * 3
                + ["zstd", "marker", "append time", "sparse", "epoch", "hole", "no time"]
            )
        )
        records = [PLAIN._replace(timestamp=draw(st.integers(0, 100))) for _ in range(count)]
        if kind == "marker":
            log.append(marker(offset, 1, commit=True))
            count = 1
        elif kind == "sparse":
            log.append(stored(offset, records, deltas=range(0, 2 * count, 2)))
            count = 2 * count - 1
        elif kind == "hole":
            offset += 3
            log.append(stored(offset, records))
        elif kind == "transaction":
            log.append(stored(offset, records, producer_id=draw(st.integers(1, 2)), transactional=True))
        elif kind == "no time":
            log.append(stored(offset, [PLAIN._replace(timestamp=-1)] * count))
        else:
            bits = LOG_APPEND_TIME if kind == "append time" else 0
            codec, epoch = ZSTD if kind == "zstd" else NONE, 6 if kind == "epoch" else 5
            log.append(stored(offset, records, codec=codec, attributes=bits, leader_epoch=epoch))
        offset += count
    return log


@given(log=logs(), span_bytes=st.integers(0, 600))
def test_spans_are_the_batches_in_groups(log: list[bytes], span_bytes: int) -> None:
    """Runs hold stored batches whole and in order; only alike ones that follow one another are together."""
    data = b"".join(log)
    batches = list(scan(data))
    found = list(spans(data, tiny_bytes=1 << 20, span_bytes=span_bytes))

    assert b"".join(batch.view for batch, _ in found) == data
    assert sum(parts for _, parts in found) == len(batches)
    for span, parts in found:
        inside = list(scan(span.view))
        assert len(inside) == parts
        assert (span.base_offset, span.offset_end) == (inside[0].base_offset, inside[-1].offset_end)
        assert span.record_count == sum(batch.record_count for batch in inside)
        if parts > 1:
            assert span.is_dense
            assert span.max_timestamp == max(batch.max_timestamp for batch in inside)
            assert len({(batch.codec, batch.leader_epoch, batch.is_transactional) for batch in inside}) == 1
            assert len({batch.producer_id for batch in inside}) == 1 or not span.is_transactional
            assert not any(batch.is_control or batch.is_log_append_time or batch.base_timestamp < 0 for batch in inside)
            assert span.size_bytes - inside[-1].size_bytes < span_bytes
