"""Fillers: records that take the offsets a source has deleted, so that the records behind them keep theirs.

They are deleted again (DeleteRecords) before the first real record is written. Each has a key, so that compacted topics
accept them too, and no value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.kafka.batches.batch import SEQUENCE_MASK, Batch

RECORDS_PER_BATCH: Final = 100_000
"""More per batch is slower: the broker's validator keeps a list of the records of one batch."""
FILLER_KEY: Final = b"__isthmus.filler"
_ZSTD: Final = 4


@lru_cache(maxsize=2)
def filler(count: int, timestamp: int) -> Batch:
    """Build a zstd batch of `count` fillers with `timestamp` (ms). It is cached, and sent again with another header."""
    return encode([Record(offset, timestamp, FILLER_KEY, None, []) for offset in range(count)], _ZSTD)


def is_filler(batch: Batch) -> bool:
    """Whether a batch of the target's log is one of our fillers, to be deleted.

    :raises ValueError: The batch cannot be decoded.
    """
    if batch.is_control or batch.magic != 2 or batch.codec != _ZSTD:
        return False
    records = records_of(batch)
    return bool(records) and records[0].key == FILLER_KEY


def is_in_place(batch: Batch) -> bool:
    """Whether fillers are at the offsets they were written for, by their sequence: behind nothing but fillers."""
    return batch.base_sequence == batch.base_offset & SEQUENCE_MASK
