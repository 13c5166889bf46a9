"""Record batches taken apart and put together again: joined, split, trimmed, made dense, brought to magic 2.

Only batches that cannot be written unchanged come here. Records are decoded and encoded by aiokafka's compiled codec;
offsets, timestamps, keys, values and headers stay, the batch around them changes. See `wire.records` for header keys
that are not UTF-8.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

import cramjam
from aiokafka.codec import snappy_encode
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, build_compressed, check_batch, scan
from isthmus.kafka.batches.legacy import messages
from isthmus.kafka.batches.records import Headers, encode_records, records_in

_BUILDER_BYTES: Final = 1 << 30
_MAGIC: Final = 2
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 3


class Record(NamedTuple):
    """A decoded record. Timestamp in ms, -1 where magic 0 has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch, of any magic and codec, in offset order.

    :raises ValueError: The checksum is wrong, or the bytes cannot be decoded.
    """
    check_batch(batch)
    if batch.magic != _MAGIC:
        return _legacy_records(batch)
    try:
        # The bytes of a batch built here begin at offset 0, whatever its base offset is.
        shift = batch.base_offset - next(scan(batch.view)).base_offset
        return [Record(r.offset + shift, r.timestamp, r.key, r.value, r.headers) for r in records_in(batch)]
    except Exception as error:
        raise ValueError(f"the batch at offset {batch.base_offset} cannot be decoded: {error}") from error


def _legacy_records(batch: Batch) -> list[Record]:
    try:
        found = messages(batch)
        return [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, []) for r in found]
    except Exception as error:
        raise ValueError(f"the message set at offset {batch.base_offset} cannot be decoded: {error}") from error


def encode(records: Sequence[Record], codec: int) -> Batch:
    """Encode records with consecutive offsets as one dense batch of magic 2. All have timestamps, or none has."""
    builder = new_builder()
    append = builder.append
    try:
        for delta, (_, timestamp, key, value, headers) in enumerate(records):
            append(delta, timestamp, key, value, headers)
    except UnicodeEncodeError:
        return place_batch(encode_records(record[1:] for record in records), records[0].offset, codec)
    return place_batch(builder.build(), records[0].offset, codec)


def new_builder(bytes_max: int = _BUILDER_BYTES) -> DefaultRecordBatchBuilder:
    """Return a builder of an uncompressed batch, as its own LZ4 uses the slowest level: `place_batch` compresses."""
    return DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, bytes_max)


def place_batch(built: bytes | bytearray, base_offset: int, codec: int) -> Batch:
    """Return the batch that was built, at this offset and compressed by this codec."""
    plain = memoryview(built)
    batch = next(scan(plain))
    # Remove the leader epoch 0 that the builder writes: it would be a false statement about the source's log.
    offset_end = base_offset + batch.record_count
    batch = batch._replace(base_offset=base_offset, offset_end=offset_end, leader_epoch=-1)
    if codec == 0:
        return batch
    return build_compressed(batch, codec, _COMPRESS[codec](bytes(plain[HEADER_BYTES:])))


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=_GZIP_LEVEL, mtime=0)


def _lz4(data: bytes) -> bytes:
    # Brokers do not read linked blocks (KIP-57).
    compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _snappy(data: bytes) -> bytes:
    return bytes(snappy_encode(data))


_COMPRESS: Final[dict[int, Callable[[bytes], bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}


def join(batches: Sequence[Batch]) -> Batch:
    """Join consecutive dense batches (or runs of them, see `wire.batch.spans`) of one codec to one batch.

    The inner loop does as little as possible: it decides how fast sources of tiny batches are copied.

    :raises ValueError: The batches cannot be decoded, or hold other records than their headers promise.
    """
    builder = new_builder()
    append = builder.append
    base_offset, delta = batches[0].base_offset, 0
    try:
        for batch in batches:
            stored = MemoryRecords(bytes(batch.view))
            while (records := stored.next_batch()) is not None:
                for record in records:
                    append(delta, record.timestamp, record.key, record.value, record.headers)
                    delta += 1
    except UnicodeDecodeError:
        return _join_records(batches)
    except Exception as error:
        raise ValueError(f"the batches from offset {base_offset} on cannot be decoded: {error}") from error
    if base_offset + delta != batches[-1].offset_end:
        raise ValueError(f"the batches from offset {base_offset} on hold other records than their headers promise")
    return place_batch(builder.build(), base_offset, batches[0].codec)


def _join_records(batches: Sequence[Batch]) -> Batch:
    """`join` of records some of which have header keys that are not UTF-8: slower, record by record."""
    base_offset, records = batches[0].base_offset, []
    for batch in batches:
        for stored in scan(batch.view):
            records += records_of(stored)
    if base_offset + len(records) != batches[-1].offset_end:
        raise ValueError(f"the batches from offset {base_offset} on hold other records than their headers promise")
    placed = [record._replace(offset=base_offset + delta) for delta, record in enumerate(records)]
    return encode(placed, batches[0].codec)


def dense(batch: Batch, *, begin: int = 0, codec: int | None = None) -> list[Batch]:
    """Encode the records from offset `begin` on as dense batches, one for each run of offsets without a hole.

    Used for batches from which the log cleaner removed records, for batches that begin below the writer's position, for
    old magics, and for LogAppendTime, where the decoded timestamp is the broker's.
    """
    codec = batch.codec if codec is None else codec
    return [encode(run, codec) for run in _runs(record for record in records_of(batch) if record.offset >= begin)]


def _runs(records: Iterable[Record]) -> list[list[Record]]:
    """Group records with consecutive offsets. Records without a timestamp are grouped apart, as the builder would give
    them that of another record.
    """
    runs: list[list[Record]] = []
    last: Record | None = None
    for record in records:
        if last is None or last.offset + 1 != record.offset or (last.timestamp < 0) != (record.timestamp < 0):
            runs.append([])
        runs[-1].append(record)
        last = record
    return runs


def split(batch: Batch, bytes_max: int) -> list[Batch]:
    """Split a dense batch into several, each of at most `bytes_max` unless it holds a single record.

    A single larger record is passed on: only the target can tell whether it is too large.
    """
    records = records_of(batch)
    parts = -(-batch.size_bytes // bytes_max) + 1
    size = max(len(records) // parts, 1)
    out: list[Batch] = []
    iterator = iter(records)
    while chunk := list(islice(iterator, size)):
        for run in _runs(chunk):
            piece = encode(run, batch.codec)
            if piece.size_bytes <= bytes_max or len(run) == 1:
                out.append(piece)
            else:
                out += split(piece, bytes_max)
    return out
