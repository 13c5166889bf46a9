"""Finds the batches of a Fetch answer in aborted transactions, like consumers at read_committed do (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from isthmus.kafka.batches.batch import HEADER_BYTES, Batch

ABORT: Final = 0
COMMIT: Final = 1

# The key of a control record is a version and a type, int16 each. It is never compressed, so five bytes precede
# it: the record's length, its attributes, two deltas and the key's length.
_TYPE: Final = slice(HEADER_BYTES + 7, HEADER_BYTES + 9)


def control_type(batch: Batch) -> int:
    """`ABORT` or `COMMIT` for the control batch that ends a transaction; -1 for others."""
    kind = int.from_bytes(batch.view[_TYPE], "big")
    return kind if kind in (ABORT, COMMIT) else -1


class AbortedView:
    """Follows the batches of an answer, in order.

    `aborted` are the answer's pairs of producer id and first offset: the producer's transactional batches are skipped
    from there until its abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._begins = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def advance(self, batch: Batch) -> bool:
        """Take the next batch. Return whether consumers skip it as aborted; False for control batches."""
        begins = self._begins
        while begins and begins[-1][0] < batch.offset_end:
            self._open.add(begins.pop()[1])
        if not batch.is_control:
            return batch.is_transactional and batch.producer_id in self._open
        if control_type(batch) == ABORT:
            self._open.discard(batch.producer_id)
        return False
