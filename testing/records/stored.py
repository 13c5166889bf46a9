"""Record sets as brokers store them, built by other people's codecs: aiokafka's and kafka-python's."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from crc32c import crc32c
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from isthmus.kafka.batches.batch import CONTROL, Batch, scan

NONE: Final = 0
LZ4: Final = 3
ZSTD: Final = 4
_BUILDER_BYTES: Final = 1 << 26
_CRC_AT: Final = 17
_CHECKED_BEGIN: Final = 21
_LZ4_FRAME_BEGIN: Final = b"\x04\x22\x4d\x18\x60\x40"
_LZ4_CHECKSUM_OF_KAFKA: Final = b"\x1a"
"""That of the frame is another: whatever goes by the format of LZ4 refuses it (KIP-57)."""
_LZ4_IS_PLAIN: Final = 1 << 31


class Given(NamedTuple):
    """A record to be stored."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


PLAIN: Final = Given(1_700_000_000_000, b"key", b"value", [])

octets = st.none() | st.binary(max_size=30)
given_records = st.builds(
    Given,
    st.integers(0, 4_000_000_000_000),
    octets,
    octets,
    st.lists(st.tuples(st.text(max_size=5), octets), max_size=3),
)


def stored(
    base_offset: int,
    records: Sequence[Given],
    *,
    codec: int = NONE,
    producer_id: int = -1,
    transactional: bool = False,
    deltas: Iterable[int] | None = None,
    builder: Any = AioBuilder,
    attributes: int = 0,
    leader_epoch: int = 5,
) -> bytes:
    """One batch. `attributes` are further bits to set; `deltas` say which offsets of the batch are left."""
    built = builder(2, codec, int(transactional), producer_id, 0 if producer_id >= 0 else -1, -1, _BUILDER_BYTES)
    for delta, record in zip(range(len(records)) if deltas is None else deltas, records, strict=True):
        built.append(delta, record.timestamp, record.key, record.value, record.headers)
    return patched(bytes(built.build()), base_offset, attributes=attributes, leader_epoch=leader_epoch)


def patched(data: bytes, base_offset: int, *, attributes: int = 0, leader_epoch: int = 5) -> bytes:
    """A built batch at its place in a log."""
    batch = bytearray(data)
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, 12, leader_epoch)
    (old,) = struct.unpack_from(">h", batch, _CHECKED_BEGIN)
    struct.pack_into(">h", batch, _CHECKED_BEGIN, old | attributes)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_CHECKED_BEGIN:])))
    return bytes(batch)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    """A control batch as a coordinator writes it."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 1)
    record = [PLAIN._replace(key=key, value=value)]
    return stored(offset, record, producer_id=producer_id, transactional=True, attributes=CONTROL)


def message_sets(magic: int, codec: int, records: Sequence[Given], *, base_offset: int = 0) -> bytes:
    """What brokers stored before Kafka 0.11: a message each, or one message with all others compressed in it."""
    plain = LegacyRecordBatchBuilder(magic, NONE if (magic, codec) == (0, LZ4) else codec, _BUILDER_BYTES)
    for n, record in enumerate(records):
        plain.append(base_offset + n, timestamp=record.timestamp, key=record.key, value=record.value)
    built = bytes(plain.build())
    return _with_lz4(built, base_offset + len(records) - 1) if (magic, codec) == (0, LZ4) else built


def _with_lz4(inner: bytes, last_offset: int) -> bytes:
    """A message of magic 0 around others, with LZ4 as Kafka wrote it, which aiokafka knows not at all."""
    frame = b"".join(
        (
            _LZ4_FRAME_BEGIN,
            _LZ4_CHECKSUM_OF_KAFKA,
            struct.pack("<I", len(inner) | _LZ4_IS_PLAIN),
            inner,
            struct.pack("<I", 0),
        )
    )
    checked = struct.pack(">bbii", 0, LZ4, -1, len(frame)) + frame
    return struct.pack(">qiI", last_offset, len(checked) + 4, zlib.crc32(checked)) + checked


def one(data: bytes) -> Batch:
    """The only batch of a record set."""
    (batch,) = scan(data)
    return batch


# kafka-python would need a library of its own for each of the other codecs.
CODECS: Final = {"aiokafka": st.integers(0, 4), "kafka-python": st.integers(0, 1)}
BUILDERS: Final = {"aiokafka": AioBuilder, "kafka-python": PythonBuilder}
