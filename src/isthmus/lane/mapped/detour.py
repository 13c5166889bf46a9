"""The detour of a mapped lane: batches that have to be taken apart. Nothing else is in its way, see `transit`."""

from __future__ import annotations

from typing import Protocol

from isthmus.lane.phase import Intake
from isthmus.lane.regrouping import Regrouping, regroup
from isthmus.lane.run import LaneRun, Refused
from isthmus.model.lane import LaneState


class Shortened(Regrouping, Protocol):
    """What this detour needs of its engine."""

    def may_go_on(self, run: LaneRun) -> bool: ...
    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...


class ShortDetour:
    """Takes mapped lanes past what the fast path cannot carry."""

    def __init__(self, engine: Shortened) -> None:
        self._engine = engine

    async def take(self, run: LaneRun) -> None:
        """Go on until the head of the lane is plain again, nothing is pending, or the lane may not write any more.

        :raises Refused: The lane is in another state now.
        """
        while self._engine.may_go_on(run) and run.pending:
            piece, position = run.pending[0], run.writer.position
            if piece.batch.offset_end <= position:
                self._engine.advanced(run, 1, piece.batch.record_count)
            elif piece.batch.base_offset > position:
                # The lane went back: taking the batch apart would never lead to its place.
                raise _beyond(run, piece.batch.base_offset)
            elif piece.is_plain and piece.batch.base_offset == position:
                return
            else:
                regroup(run, piece, self._engine)


def _beyond(run: LaneRun, ordinal: int) -> Refused:
    """What was read is not what comes next: the place is looked up anew, and it is read again from there."""
    run.intake = Intake.SPOILT
    run.fail(
        LaneState.BLOCKED,
        f"record {ordinal} was read, and record {run.position} comes next",
        "Isthmus reads again from there within seconds; if this stays, please report it with the log.",
    )
    return Refused()
