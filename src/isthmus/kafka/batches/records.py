"""Decodes and encodes records of stored batches, also with header keys that are not UTF-8.

Kafka defines header keys as UTF-8, but does not check it, and librdkafka passes any bytes on. Such a key becomes a text
with surrogates in place of the invalid bytes (PEP 383), and is written back as the same bytes. aiokafka's compiled
codec refuses such records, so they are handled here, far slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import decode_varint, encode_varint

from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, build_batch, scan
from isthmus.kafka.batches.legacy import messages

Headers = list[tuple[str, bytes | None]]
_DECOMPRESS: Final = {0: bytes, 1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
_MAGIC: Final = 2
_CREATE_TIME: Final = 0
_LOG_APPEND_TIME: Final = 1


class StoredRecord(NamedTuple):
    """A decoded record, with the attributes of aiokafka's. The timestamp is in ms."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def header_key(text: str) -> bytes:
    """The original bytes of a header's key."""
    return text.encode("utf-8", "surrogateescape")


def payload(batch: Batch) -> bytes:
    """Decompress the bytes behind a batch's header.

    :raises Exception: The bytes are damaged. The type depends on the codec.
    """
    return bytes(_DECOMPRESS[batch.codec](bytes(batch.view[HEADER_BYTES:])))


def records_in(batch: Batch) -> list[Any]:
    """Decode the records of one stored batch, at the offsets in its bytes; those of magic 0 have no timestamp (`None`).

    :raises Exception: The bytes are not records. The type depends on the decoder.
    """
    if batch.magic != _MAGIC:
        return list(messages(batch))
    try:
        return list(DefaultRecordBatch(batch.view))
    except UnicodeDecodeError:
        pass
    try:
        # The offsets of a batch built here begin at 0 in its bytes, whatever its base offset is.
        return list(_decode(next(scan(batch.view))))
    except IndexError:
        raise ValueError("it ends in the middle of a number") from None


def _decode(batch: Batch) -> Iterator[StoredRecord]:
    data = payload(batch)
    position = 0
    for _ in range(batch.record_count):
        size, begin = decode_varint(data, position)
        position = begin + size
        if not 0 < size <= len(data) - begin:
            raise ValueError(f"a record claims {size} bytes")
        yield _record(batch, memoryview(data)[begin:position])
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the last record")


def _record(batch: Batch, data: memoryview) -> StoredRecord:
    # The first byte is for attributes, which are not used.
    timestamp_delta, position = decode_varint(data, 1)
    offset_delta, position = decode_varint(data, position)
    key, position = _octets(data, position)
    value, position = _octets(data, position)
    count, position = decode_varint(data, position)
    headers: Headers = []
    for _ in range(count):
        name, position = _octets(data, position)
        held, position = _octets(data, position)
        if name is None:
            raise ValueError("a header has no key")
        headers.append((name.decode("utf-8", "surrogateescape"), held))
    if position != len(data):
        raise ValueError(f"a record of {len(data)} bytes ends after {position}")
    is_appended = batch.is_log_append_time
    timestamp = batch.max_timestamp if is_appended else batch.base_timestamp + timestamp_delta
    kind = _LOG_APPEND_TIME if is_appended else _CREATE_TIME
    return StoredRecord(batch.base_offset + offset_delta, timestamp, kind, key, value, headers)


def _octets(data: memoryview, position: int) -> tuple[bytes | None, int]:
    size, begin = decode_varint(data, position)
    if size < 0:
        return None, begin
    if size > len(data) - begin:
        raise ValueError(f"a field claims {size} bytes")
    return bytes(data[begin : begin + size]), begin + size


def encode_records(
    records: Iterable[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
) -> bytes:
    """Encode records, given as timestamp (ms), key, value and headers, as a dense, uncompressed batch at offset 0."""
    body = bytearray()
    base = latest = -1
    count = 0
    for timestamp, key, value, headers in records:
        base = base if count else timestamp
        latest = max(latest, timestamp)
        record = bytearray(1)
        encode_varint(timestamp - base, record.append)
        encode_varint(count, record.append)
        _put(record, key)
        _put(record, value)
        encode_varint(len(headers), record.append)
        for name, held in headers:
            _put(record, header_key(name))
            _put(record, held)
        encode_varint(len(record), body.append)
        body += record
        count += 1
    return build_batch(bytes(body), count, base, latest)


def _put(record: bytearray, octets: bytes | None) -> None:
    encode_varint(-1 if octets is None else len(octets), record.append)
    record += octets or b""
