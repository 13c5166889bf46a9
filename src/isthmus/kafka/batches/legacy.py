"""Decodes message sets from before Kafka 0.11 (magic 0 and 1)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import cramjam
from aiokafka.record.legacy_records import LegacyRecordBatch

from isthmus.kafka.batches.batch import Batch, scan

_LZ4: Final = 3
_ATTRIBUTES_END: Final = 18
_LENGTH: Final = struct.Struct(">i")
_LZ4_CHECKSUM_AT: Final = 6
"""Behind the magic of the frame (4 bytes) and two bytes of flags; Kafka did not write a content size."""


def messages(batch: Batch) -> Iterator[Any]:
    """Yield the messages of a set in offset order, with `offset`, `timestamp` (None for magic 0), `key` and `value`.

    :raises ValueError: The checksum is wrong.
    """
    decoded = LegacyRecordBatch(bytes(batch.view), batch.magic)
    if not decoded.validate_crc():
        raise ValueError("its checksum is wrong")
    if batch.magic > 0 or batch.codec != _LZ4:
        yield from decoded
    else:
        for inner in scan(_decompress_lz4(batch.view)):
            yield from messages(inner)


def _decompress_lz4(view: memoryview) -> bytes:
    """Decompress the content of a message of magic 0: its LZ4 frames have a wrong header checksum (KIP-57).

    The correct checksum is one byte that no library computes for us, so all values are tried.
    """
    (key_bytes,) = _LENGTH.unpack_from(view, _ATTRIBUTES_END)
    frame = bytearray(view[_ATTRIBUTES_END + 2 * _LENGTH.size + max(key_bytes, 0) :])
    for checksum in range(256):
        frame[_LZ4_CHECKSUM_AT] = checksum
        try:
            return bytes(cramjam.lz4.decompress(frame))
        except cramjam.DecompressionError:
            continue
    raise ValueError("its LZ4 frame is broken")
