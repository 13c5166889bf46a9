"""The detour of a mapped lane: it only rebuilds batches. `transit` leaves out everything else."""

from __future__ import annotations

from typing import Protocol

from isthmus.engine.regrouping import Regrouping, regroup
from isthmus.engine.run import LaneRun, Refused
from isthmus.model.lane import LaneState


class Shortened(Regrouping, Protocol):
    """The part of the engine that this detour uses."""

    def may_go_on(self, run: LaneRun) -> bool: ...
    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...


class ShortDetour:
    """Takes mapped lanes past pieces that the fast path cannot send."""

    def __init__(self, engine: Shortened) -> None:
        self._engine = engine

    async def take(self, run: LaneRun) -> None:
        """Continue until the head of the lane is plain again, nothing is pending, or the lane may not write any more.

        :raises Refused: The lane cannot go on; its state shows why.
        """
        while self._engine.may_go_on(run) and run.intake.pending:
            piece, position = run.intake.pending[0], run.writer.position
            if piece.batch.offset_end <= position:
                self._engine.advanced(run, 1, piece.batch.record_count)
            elif piece.batch.base_offset > position:
                # The lane went back: rebuilding the batch would never lead to its place.
                raise _refuse_beyond(run, piece.batch.base_offset)
            elif piece.is_plain and piece.batch.base_offset == position:
                return
            else:
                regroup(run, piece, self._engine)


def _refuse_beyond(run: LaneRun, ordinal: int) -> Refused:
    """The next piece is not at the lane's place: find the place again, and read from there."""
    run.intake.spoil()
    run.fail(
        LaneState.BLOCKED,
        f"record {ordinal} was read, and record {run.position} comes next",
        "Isthmus reads again from there within seconds; if this stays, please report it with the log.",
    )
    return Refused()
