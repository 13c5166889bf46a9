"""Leaves aborted data out: control records take its offsets, and consumers at read_committed see no difference.

It is as exact as control records are: they are sent to the leader directly, and only we write. No transaction is begun
for it. One that was begun while aborted data was still copied is ended at the next offset that is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.regrouping import Judges
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.same.aborts import Aborts
from isthmus.engine.same.markers import Markers
from isthmus.kafka.batches.aborted import ABORT, control_type
from isthmus.kafka.batches.batch import Batch, check_batch
from isthmus.model.kafka.transactions import AbortedPolicy


class Omitting(Protocol):
    """The part of the engine that the omission uses."""

    @property
    def faults(self) -> Judges: ...

    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...


class Omission:
    """Leaves out aborted data, one lane at a time."""

    def __init__(self, engine: Omitting, aborts: Aborts, markers: Markers) -> None:
        self._engine = engine
        self._aborts = aborts
        self._markers = markers

    async def applies(self, run: LaneRun) -> bool:
        """Whether aborted data of the lane is left out.

        :raises ClusterError: The target does not answer.
        """
        if run.lane.aborted is not AbortedPolicy.AUTO:
            return run.lane.aborted is AbortedPolicy.OMIT
        # Without the right to write control records a coordinator would have to write one for each record.
        return await self._markers.ask_whether_allowed(run) and not await self._aborts.may_be_alone(run)

    async def take(self, run: LaneRun) -> None:
        """Leave out the head of the lane, which is aborted, and the following pieces as far as possible.

        :raises ClusterError: A request failed; the log has to be looked at.
        :raises Refused: The lane cannot go on; its state shows why.
        """
        head = run.intake.pending[0].batch
        transaction = await self._aborts.left_open(run, head.producer_id)
        if transaction is not None:
            await self._markers.end(run, head.producer_id, transaction)
            return
        # While other transactions are open, the following pieces may contain the end of one.
        parts = islice(stretch(run.intake.pending), None if await self._aborts.ask_whether_quiet(run) else 1)
        await self._markers.fill(run, self._find_end(run, [part.batch for part in parts]))
        self._engine.advanced(run, run.written, 0)

    def _find_end(self, run: LaneRun, batches: list[Batch]) -> int:
        """The end of the undamaged batches: a damaged one may not be aborted."""
        end = run.writer.position
        for batch in batches:
            try:
                check_batch(batch)
            except ValueError as error:
                if end > run.writer.position:
                    break
                run.intake.spoil()
                self._engine.faults.block_damaged(run, end, str(error))
                raise Refused from error
            end = batch.offset_end
        return end


def stretch(pending: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the first pieces as long as they are consecutive, and aborted data or ends of aborted transactions."""
    end = -1
    for piece in pending:
        batch = piece.batch
        is_end = batch.is_control and control_type(batch) == ABORT
        if not (piece.is_aborted or is_end) or end not in (-1, batch.base_offset):
            return
        end = batch.offset_end
        yield piece
