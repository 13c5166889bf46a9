"""Rebuilds batches that cannot be written as they are: too large, with holes inside, or partly written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from isthmus.engine.batches import rebatch
from isthmus.engine.batches.pieces import Piece, passes
from isthmus.engine.brokers.room import Room
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.state.writer import AppendVerdict
from isthmus.kafka.batches.batch import Batch, scan


class Judges(Protocol):
    """Handles a batch that is damaged or was not appended."""

    def block_damaged(self, run: LaneRun, offset: int, what: str, /) -> None: ...
    def handle_verdict(
        self,
        run: LaneRun,
        verdict: AppendVerdict,
        error_code: int,
        message: str | None = None,
        sent: Batch | None = None,
        /,
    ) -> None: ...


class Regrouping(Protocol):
    """The part of the engine that regrouping uses."""

    room: Room

    @property
    def faults(self) -> Judges: ...


def regroup(run: LaneRun, piece: Piece, engine: Regrouping) -> None:
    """Replace the lane's first piece by pieces that can be written.

    :raises Refused: The batch is damaged; the lane's state says so.
    """
    batch, lane = piece.batch, run.lane
    if piece.stored > 1:
        parts = [
            piece._replace(batch=part, is_plain=_is_plain(piece, part, run), stored=1) for part in _split_run(batch)
        ]
        engine.room.take(run.intake.replace_head(parts))
        return
    try:
        is_whole = batch.is_dense and batch.base_offset == run.writer.position
        if is_whole and batch.size_bytes > lane.batch_bytes_max:
            batches = rebatch.split(batch, lane.batch_bytes_max)
        else:
            batches = rebatch.dense(batch, begin=run.writer.position)
        _check_complete(batch, batches, run.writer.position)
    except ValueError as error:
        raise mark_damaged(run, error, engine.faults) from error
    # A new batch has no producer id, and transactions are distinguished by it.
    batches = [part._replace(producer_id=batch.producer_id) for part in batches]
    is_plain = not (piece.is_aborted or piece.is_undecided)
    pieces = [piece._replace(batch=part, is_plain=is_plain) for part in batches]
    if not pieces:
        # Every record of the batch is gone or was copied before; its offsets still have to be filled.
        pieces = [Piece(_build_empty(batch), False, False)]
    elif pieces[-1].batch.offset_end < batch.offset_end:
        pieces.append(Piece(_build_empty(batch), False, False))
    engine.room.take(run.intake.replace_head(pieces))


def _is_plain(piece: Piece, part: Batch, run: LaneRun) -> bool:
    return not piece.is_undecided and passes(part, run.lane.batch_bytes_max)


def mark_damaged(run: LaneRun, error: ValueError, faults: Judges) -> Refused:
    """Mark the pending pieces as damaged, so that they are read again. Return the exception to raise."""
    run.intake.spoil()
    faults.block_damaged(run, run.position, str(error))
    return Refused()


def _check_complete(batch: Batch, parts: list[Batch], begin: int) -> None:
    """Check that no record is missing: a gap between the parts would become a hole at the target.

    :raises ValueError: The parts hold other records than the header of the batch promises.
    """
    count = sum(part.record_count for part in parts)
    if batch.is_dense and count != batch.offset_end - max(batch.base_offset, begin):
        raise ValueError(f"the batch at offset {batch.base_offset} does not hold the records its header promises")


def _split_run(batch: Batch) -> Iterator[Batch]:
    """Yield the stored batches of a run with their present offsets: the bytes may hold earlier ones."""
    shift: int | None = None
    for part in scan(batch.view):
        shift = batch.base_offset - part.base_offset if shift is None else shift
        yield part._replace(base_offset=part.base_offset + shift, offset_end=part.offset_end + shift)


def _build_empty(batch: Batch) -> Batch:
    """A stand-in for offsets without records up to the end of `batch`."""
    return batch._replace(record_count=0, view=batch.view[:0])
