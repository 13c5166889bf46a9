"""The batches read of a source partition, in order, and how each has to be written. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from isthmus.kafka.batches.aborted import AbortedView
from isthmus.kafka.batches.batch import CONTROL, LOG_APPEND_TIME, Batch


class Piece(NamedTuple):
    """A batch of the source, or a run of `stored` tiny ones that has to be joined before it can be written.

    `is_plain`: needs no other work than that. `is_aborted`: of an aborted transaction. `is_undecided`: of a
    transaction that is copied as one, before it is known how it ends.
    """

    batch: Batch
    is_plain: bool
    is_aborted: bool
    stored: int = 1
    is_undecided: bool = False


def passes(batch: Batch, bytes_max: int) -> bool:
    """Whether the target accepts the bytes of the batch unchanged. Only the target can tell whether a single record is
    too large.

    A LogAppendTime timestamp is in the header, which is not copied: it has to be written into the records.
    """
    return (
        batch.magic == 2
        and not batch.attributes & (CONTROL | LOG_APPEND_TIME)
        and 0 < batch.record_count == batch.offset_end - batch.base_offset
        and (len(batch.view) <= bytes_max or batch.record_count == 1)
    )


def pieces(
    batches: Iterable[tuple[Batch, int]],
    aborted: Collection[tuple[int, int]],
    *,
    bytes_max: int,
    is_whole: bool = False,
) -> Iterator[Piece]:
    """Classify the batches of one fetch, each with the number of stored batches it stands for.

    `aborted` are the answer's aborted transactions, see `AbortedView`. `is_whole` means that open ones were read too.
    """
    if is_whole:
        for batch, stored in batches:
            is_undecided = batch.is_transactional and not batch.is_control
            yield Piece(batch, not is_undecided and passes(batch, bytes_max), False, stored, is_undecided)
        return
    if not aborted:
        for batch, stored in batches:
            yield Piece(batch, passes(batch, bytes_max), False, stored)
        return
    view = AbortedView(aborted)
    for batch, stored in batches:
        is_aborted = view.advance(batch)
        yield Piece(batch, not is_aborted and passes(batch, bytes_max), is_aborted, stored)
