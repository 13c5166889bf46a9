"""Record batches as bytes: scanning, checking and stamping them without looking at a record.

A batch of magic 2 starts with a header of 61 bytes (KIP-98); the CRC32C covers everything from `attributes` on. A
copier changes the header only, so the records are passed on as the bytes that were read, without looking at them: the
CRC of the new header and the old records follows from the old CRC.

    offset field            size    offset field           size    offset field             size
         0 baseOffset          8        21 attributes         2        43 producerId            8
         8 batchLength         4        23 lastOffsetDelta    4        51 producerEpoch         2
        12 leaderEpoch         4        27 baseTimestamp      8        53 baseSequence          4
        16 magic               1        35 maxTimestamp       8        57 recordCount           4
        17 crc                 4                                       61 records
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from isthmus.kafka.batches.checksum import update_crc

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
RECORDS_BEGIN: Final = 57
"""From here on (record count and records) a raw copy equals its source byte for byte."""
_FRAME: Final = struct.Struct(">qiib")
_FRAME_BYTES: Final = 12
_CHECKED_BEGIN: Final = 21
_CHECKED: Final = struct.Struct(">hiqqqhii")
_UNCHECKED: Final = struct.Struct(">qiibI")
"""The part before the checked one: the frame, the magic and the CRC."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_NOT_ORDINARY: Final = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_OF_RUN: Final = CODEC_MASK | TRANSACTIONAL
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SEQUENCE_MASK: Final = 0x7FFFFFFF


class Batch(NamedTuple):
    """One stored record batch. Offsets are the source's; `offset_end` is exclusive; timestamps are in ms.

    For magic 0 and 1 (before KIP-98) only the offsets, `magic` and `view` are valid: such a message set has to be
    decoded for more.
    """

    base_offset: int
    offset_end: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    view: memoryview

    @property
    def size_bytes(self) -> int:
        return len(self.view)

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_dense(self) -> bool:
        """Whether every offset of the batch holds a record, so that a client may produce it."""
        return self.record_count == self.offset_end - self.base_offset and self.record_count > 0


def scan(records: bytes | bytearray | memoryview) -> Iterator[Batch]:
    """Yield the whole batches in a fetched record set; a batch cut off at the end is left out (KIP-74).

    :raises ValueError: When the bytes cannot be record batches (a length or magic that no broker writes).
    """
    view = memoryview(records)
    position, end = 0, len(view)
    while end - position >= HEADER_BYTES:
        fields = HEADER.unpack_from(view, position)
        base, length, epoch, magic, crc, attributes, last_delta = fields[:7]
        size = length + _FRAME_BYTES
        if size > end - position:
            return
        if magic != 2:
            yield _legacy(view[position : position + size], base, magic)
        elif length < HEADER_BYTES - _FRAME_BYTES:
            raise ValueError(f"a record batch at offset {base} claims {length} bytes")
        else:
            base_timestamp, max_timestamp, producer_id, producer_epoch, sequence, count = fields[7:]
            yield Batch(
                base,
                base + last_delta + 1,
                epoch,
                magic,
                crc,
                attributes,
                base_timestamp,
                max_timestamp,
                producer_id,
                producer_epoch,
                sequence,
                count,
                view[position : position + size],
            )
        position += size
    # A message of magic 0 or 1 may be smaller than a v2 header.
    while end - position >= _FRAME.size:
        base, length, _, magic = _FRAME.unpack_from(view, position)
        size = length + _FRAME_BYTES
        if magic == 2 or size > end - position:
            return
        yield _legacy(view[position : position + size], base, magic)
        position += size


def spans(  # noqa: C901  # one loop on purpose: a call per stored batch would double its cost
    records: bytes | bytearray | memoryview, *, tiny_bytes: int, span_bytes: int
) -> Iterator[tuple[Batch, int]]:
    """Yield the whole batches in a fetched record set; runs of tiny ones count as a single `Batch`.

    Yields batches and how many stored batches the view of each covers. Only batches of magic 2 below `tiny_bytes` that
    hold ordinary records, follow one another without a hole and share a codec, a leader epoch and the producer of a
    transaction, if any, make a run; a run ends at `span_bytes`.
    A source of one-record batches would otherwise cost an object and several calls for every record.

    Checksums are compared, but not those of ordinary batches of `tiny_bytes` or more: these may be copied unchanged
    with their checksum (see `stamp`). Any other use of such a batch requires `check_batch` first.

    :raises ValueError: A checksum is wrong, or the bytes cannot be record batches.
    """
    view = memoryview(records)
    run: tuple[int, ...] = ()
    begin = parts = run_end = run_count = run_max = 0
    run_kind = -1
    position, end = 0, len(view)
    while end - position >= HEADER_BYTES:
        fields = HEADER.unpack_from(view, position)
        base, length, epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, _, _, _, count = fields
        size = length + _FRAME_BYTES
        if size > end - position or magic != 2:
            break
        is_ordinary = base_timestamp >= 0 and not attributes & _NOT_ORDINARY and count == last_delta + 1
        is_tiny = is_ordinary and size < tiny_bytes
        passes = is_ordinary and not is_tiny
        if size < HEADER_BYTES or (not passes and crc32c(view[position + _CHECKED_BEGIN : position + size]) != crc):
            # Raised below, after the whole batches before it were yielded.
            break
        if is_tiny:
            kind = attributes & _OF_RUN
            if kind > CODEC_MASK:
                kind |= fields[9] << 8
            follows = parts and base == run_end and epoch == run[2] and kind == run_kind
            if follows and position - begin < span_bytes:
                parts += 1
                run_end = base + count
                run_count += count
                if max_timestamp > run_max:
                    run_max = max_timestamp
            else:
                if parts:
                    yield _span(run, run_end, run_max, run_count, view[begin:position]), parts
                run, begin, parts = fields, position, 1
                run_end, run_count, run_max, run_kind = base + count, count, max_timestamp, kind
        else:
            if parts:
                yield _span(run, run_end, run_max, run_count, view[begin:position]), parts
                parts = 0
            yield _span(fields, base + last_delta + 1, max_timestamp, count, view[position : position + size]), 1
        position += size
    if parts:
        yield _span(run, run_end, run_max, run_count, view[begin:position]), parts
    for batch in scan(view[position:]):
        yield check_batch(batch), 1


def _span(fields: Any, offset_end: int, max_timestamp: int, count: int, view: memoryview) -> Batch:
    base, _, epoch, magic, crc, attributes, _, base_timestamp, _, producer_id, producer_epoch, sequence, _ = fields
    return Batch(
        base,
        offset_end,
        epoch,
        magic,
        crc,
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        count,
        view,
    )


def _legacy(view: memoryview, offset: int, magic: int) -> Batch:
    if magic not in (0, 1) or len(view) < 26:
        raise ValueError(f"the bytes at offset {offset} are no record batch (magic {magic})")
    # The attributes of a message set follow its frame, magic and CRC (magic 0 and 1: offset 17).
    attributes = view[17] & CODEC_MASK
    return Batch(offset, offset + 1, -1, magic, 0, attributes, -1, -1, -1, -1, -1, 1, view)


def crc_ok(batch: Batch) -> bool:
    """Whether the stored CRC32C matches the bytes (magic 2 only)."""
    return bool(crc32c(batch.view[_CHECKED_BEGIN:]) == batch.crc)


def check_batch(batch: Batch) -> Batch:
    """Return the batch if its checksum is right; the decoder checks those of magic 0 and 1.

    :raises ValueError: The checksum is wrong.
    """
    if batch.magic == 2 and not crc_ok(batch):
        raise ValueError(f"the checksum of the batch at offset {batch.base_offset} is wrong")
    return batch


def build_batch(records: bytes, count: int, base_timestamp: int, max_timestamp: int) -> bytes:
    """Build an uncompressed batch at offset 0, without a producer, from `count` encoded records."""
    front = _CHECKED.pack(0, count - 1, base_timestamp, max_timestamp, -1, -1, -1, count)
    crc = crc32c(records, crc32c(front))
    return _UNCHECKED.pack(0, HEADER_BYTES - _FRAME_BYTES + len(records), -1, 2, crc) + front + records


def build_compressed(batch: Batch, codec: int, records: bytes) -> Batch:
    """Build the compressed form of an uncompressed batch from its compressed `records`."""
    attributes = batch.attributes & ~CODEC_MASK | codec
    front = _CHECKED.pack(
        attributes,
        batch.record_count - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    crc = crc32c(records, crc32c(front))
    length = HEADER_BYTES - _FRAME_BYTES + len(records)
    unchecked = _UNCHECKED.pack(batch.base_offset, length, batch.leader_epoch, 2, crc)
    view = memoryview(b"".join((unchecked, front, records)))
    return batch._replace(attributes=attributes, crc=crc, view=view)


def stamp(batch: Batch, producer_id: int, producer_epoch: int, sequence: int, *, transactional: bool = False) -> bytes:
    """Build a new 61-byte header for the batch's records, like our own idempotent producer would write it.

    The base offset becomes 0 as brokers require of clients. The bits for LogAppendTime and the delete horizon
    (KIP-534) belong to the source's log and are cleared, the transactional bit follows `transactional`. Send it
    followed by `batch.view[61:]`. `sequence` is taken modulo 2^31, the broker's own arithmetic.

    The new checksum is derived from the old one, without reading the records. So a damaged batch keeps a wrong
    checksum, and brokers refuse it.
    """
    attributes = batch.attributes & CODEC_MASK
    if transactional:
        attributes |= TRANSACTIONAL
    count = batch.record_count
    front = _CHECKED.pack(
        attributes,
        count - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        producer_id,
        producer_epoch,
        sequence & SEQUENCE_MASK,
        count,
    )
    view = batch.view
    size = len(view)
    crc = update_crc(batch.crc, view[_CHECKED_BEGIN:HEADER_BYTES], front, size - HEADER_BYTES)
    return _UNCHECKED.pack(0, size - _FRAME_BYTES, -1, 2, crc) + front
