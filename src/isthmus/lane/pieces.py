"""What was read of a source partition, in order, and how each part has to travel. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from isthmus.wire.batch import CONTROL, LOG_APPEND_TIME, Batch

ABORT: Final = 0
COMMIT: Final = 1


class Piece(NamedTuple):
    """A batch of the source, or a run of `stored` tiny ones that has to be joined before it can go out.

    `is_plain`: no more is to be done than that. `is_aborted`: of an aborted transaction.
    """

    batch: Batch
    is_plain: bool
    is_aborted: bool
    stored: int = 1


class AbortedTransaction(NamedTuple):
    """From a fetch at read_committed: the transaction of `producer_id` that began at `first_offset` was aborted."""

    producer_id: int
    first_offset: int


def control_type(batch: Batch) -> int:
    """`ABORT` or `COMMIT` for a control batch (its one record's key is version int16, type int16); -1 for others."""
    # A control batch is never compressed: record length, attributes, two deltas and the key length are one byte each.
    key = bytes(batch.view[61 + 5 : 61 + 9])
    kind = int.from_bytes(key[2:4], "big")
    return kind if kind in (ABORT, COMMIT) else -1


def passes(batch: Batch, bytes_max: int) -> bool:
    """Whether a target takes the batch as the bytes it is. Whether it takes a single record is for the target to say.

    Stamps of LogAppendTime lie in the header, which does not travel: they have to be written into the records.
    """
    return (
        batch.magic == 2
        and not batch.attributes & (CONTROL | LOG_APPEND_TIME)
        and 0 < batch.record_count == batch.offset_end - batch.base_offset
        and (len(batch.view) <= bytes_max or batch.record_count == 1)
    )


def pieces(
    batches: Iterable[tuple[Batch, int]], aborted: Collection[AbortedTransaction], *, bytes_max: int
) -> Iterator[Piece]:
    """Classify batches of one fetch, each with the number of stored ones it stands for.

    Aborted data is told as the consumer does: by a list sorted by offset, closed by abort markers.
    """
    if not aborted:
        for batch, stored in batches:
            yield Piece(batch, passes(batch, bytes_max), False, stored)
        return
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    open_ids: set[int] = set()
    for batch, stored in batches:
        while waiting and waiting[-1].first_offset < batch.offset_end:
            open_ids.add(waiting.pop().producer_id)
        if batch.is_control:
            if control_type(batch) == ABORT:
                open_ids.discard(batch.producer_id)
            yield Piece(batch, False, False)
            continue
        is_aborted = batch.is_transactional and batch.producer_id in open_ids
        yield Piece(batch, not is_aborted and passes(batch, bytes_max), is_aborted, stored)
