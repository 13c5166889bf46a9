"""Who may write for a lane, and what its reader has brought: the states of a lane at work, and every way between them.

    SEEKING ──placed──▶ FLOWING ──diverted──▶ DETOURED ──doubted──▶ LEAVING
            ◀──doubted──        ◀──returned──
            ◀──────────────────────returned────────────────────────

Pure. What does not lead anywhere leaves a lane as it is.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """Who may write for a lane. That it is over its state tells, whatever its phase is."""

    SEEKING = enum.auto()
    """Its place at the target is in doubt: nobody may."""
    FLOWING = enum.auto()
    """Its place is known: the fast path may."""
    DETOURED = enum.auto()
    """Its place is known: the slow path may, and nobody else."""
    LEAVING = enum.auto()
    """Its place came into doubt while the slow path had it, which makes no more requests and returns it."""

    @property
    def is_placed(self) -> bool:
        """Whether the lane's place is known."""
        return self in (Phase.FLOWING, Phase.DETOURED)

    @property
    def is_detoured(self) -> bool:
        """Whether the slow path has the lane."""
        return self in (Phase.DETOURED, Phase.LEAVING)

    def doubted(self) -> Phase:
        """The lane's place is to be looked for."""
        return _DOUBTED.get(self, self)

    def placed(self) -> Phase:
        """The lane's place was found."""
        return _PLACED.get(self, self)

    def diverted(self) -> Phase:
        """What comes next is for the slow path."""
        return _DIVERTED.get(self, self)

    def returned(self) -> Phase:
        """The slow path is done with the lane."""
        return _RETURNED.get(self, self)


_DOUBTED = {Phase.FLOWING: Phase.SEEKING, Phase.DETOURED: Phase.LEAVING}
_PLACED = {Phase.SEEKING: Phase.FLOWING, Phase.LEAVING: Phase.DETOURED}
_DIVERTED = {Phase.FLOWING: Phase.DETOURED}
_RETURNED = {Phase.DETOURED: Phase.FLOWING, Phase.LEAVING: Phase.SEEKING}


class Intake(enum.Enum):
    """What of a lane was read and is not written yet."""

    WHOLE = enum.auto()
    """It is whole, and more can be read behind it."""
    CUT = enum.auto()
    """What comes behind it cannot be read (deleted, damaged)."""
    SPOILT = enum.auto()
    """It is damaged, or not what the source has any more: it is to be read again, whatever comes behind it."""

    def cut(self) -> Intake:
        """What comes next cannot be read."""
        return Intake.CUT if self is Intake.WHOLE else self

    def drained(self) -> Intake:
        """All that was read is written."""
        return Intake.WHOLE if self is Intake.CUT else self
