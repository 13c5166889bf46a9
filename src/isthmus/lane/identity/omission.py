"""Aborted data that is left out: control records take its offsets, and nobody at read_committed sees a difference.

That is exact wherever control records are: they go to the leader directly, and nobody else writes. No transaction is
begun for it. One that was begun when aborted data was still copied is ended at the next offset that is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from isthmus.lane.identity.aborts import Aborts
from isthmus.lane.identity.markers import Markers
from isthmus.lane.phase import Intake
from isthmus.lane.pieces import Piece
from isthmus.lane.regrouping import Judges
from isthmus.lane.run import LaneRun, Refused
from isthmus.model.transactions import AbortedPolicy
from isthmus.wire.aborted import ABORT, control_type
from isthmus.wire.batch import Batch, checked


class Omitting(Protocol):
    """What leaving out needs of its engine."""

    @property
    def faults(self) -> Judges: ...

    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...


class Omission:
    """Leaves aborted data out, one lane at a time."""

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
        # Without the right to write control records a coordinator would write each of them: one for each record.
        return await self._markers.ask_whether_allowed(run) and not await self._aborts.may_be_alone(run)

    async def take(self, run: LaneRun) -> None:
        """Leave out the head of the lane, which is aborted, and what follows it as far as that may be left out too.

        :raises ClusterError: A request failed; the log has to be looked at.
        :raises Refused: The lane is in another state now.
        """
        head = run.pending[0].batch
        transaction = await self._aborts.left_open(run, head.producer_id)
        if transaction is not None:
            await self._markers.end(run, head.producer_id, transaction)
            return
        # While others are open the end of one may be among what follows.
        parts = islice(stretch(run.pending), None if await self._aborts.ask_whether_quiet(run) else 1)
        await self._markers.fill(run, self._end_of(run, [part.batch for part in parts]))
        self._engine.advanced(run, run.written, 0)

    def _end_of(self, run: LaneRun, batches: list[Batch]) -> int:
        """Where those end that are whole: what is damaged may not be aborted."""
        end = run.writer.position
        for batch in batches:
            try:
                checked(batch)
            except ValueError as error:
                if end > run.writer.position:
                    break
                run.intake = Intake.SPOILT
                self._engine.faults.damaged(run, end, str(error))
                raise Refused from error
            end = batch.offset_end
        return end


def stretch(pending: Iterable[Piece]) -> Iterator[Piece]:
    """The first pieces as far as they follow one another and are aborted data, or ends of aborted transactions."""
    end = -1
    for piece in pending:
        batch = piece.batch
        is_end = batch.is_control and control_type(batch) == ABORT
        if not (piece.is_aborted or is_end) or end not in (-1, batch.base_offset):
            return
        end = batch.offset_end
        yield piece
