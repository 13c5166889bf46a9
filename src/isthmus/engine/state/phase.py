"""The phases of a lane at work: which path may write for it.

    SEEKING ──placed──▶ FLOWING ──diverted──▶ DETOURED ──doubted──▶ LEAVING
            ◀──doubted──        ◀──returned──
            ◀──────────────────────returned────────────────────────

Pure. An event without an arrow leaves the phase as it is.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """Which path may write for a lane. A lane that is over keeps its phase: see its state."""

    SEEKING = enum.auto()
    """Its place at the target is in doubt: neither path may write."""
    FLOWING = enum.auto()
    """Its place is known: only the fast path may write."""
    DETOURED = enum.auto()
    """Its place is known: only the slow path may write."""
    LEAVING = enum.auto()
    """Its place came into doubt while the slow path had it: that makes no more requests and returns the lane."""

    @property
    def is_placed(self) -> bool:
        """Whether the lane's place is known."""
        return self in (Phase.FLOWING, Phase.DETOURED)

    @property
    def is_detoured(self) -> bool:
        """Whether the slow path has the lane."""
        return self in (Phase.DETOURED, Phase.LEAVING)

    def doubted(self) -> Phase:
        """The phase once the lane's place is in doubt."""
        return _DOUBTED.get(self, self)

    def placed(self) -> Phase:
        """The phase once the lane's place was found."""
        return _PLACED.get(self, self)

    def diverted(self) -> Phase:
        """The phase once the lane was handed to the slow path."""
        return _DIVERTED.get(self, self)

    def returned(self) -> Phase:
        """The phase once the slow path is done with the lane."""
        return _RETURNED.get(self, self)


_DOUBTED = {Phase.FLOWING: Phase.SEEKING, Phase.DETOURED: Phase.LEAVING}
_PLACED = {Phase.SEEKING: Phase.FLOWING, Phase.LEAVING: Phase.DETOURED}
_DIVERTED = {Phase.FLOWING: Phase.DETOURED}
_RETURNED = {Phase.DETOURED: Phase.FLOWING, Phase.LEAVING: Phase.SEEKING}
