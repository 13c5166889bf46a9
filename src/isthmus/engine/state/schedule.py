"""Whether a lane waits for its turn, is read, and advances.

    open ──fill──▶ full ──admit──▶ open
    advancing ──look, twice at one place──▶ stuck ──advance──▶ advancing

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

_NOWHERE = (-1, -1)


@dataclass(slots=True)
class Schedule:
    """The turns of one lane.

    While it `is_queued` it waits for an appender's turn; while it `is_full` nothing is read until some of its pending
    pieces are written. It `is_stuck` while none of them was written for some time.
    """

    is_queued: bool = False
    is_full: bool = False
    is_stuck: bool = False
    _place: tuple[int, int] = _NOWHERE

    def queue(self) -> None:
        """Wait for an appender's turn."""
        self.is_queued = True

    def unqueue(self) -> None:
        """Wait no more: the turn has come, or the appender has gone."""
        self.is_queued = False

    def fill(self) -> None:
        """Read nothing until pieces are written."""
        self.is_full = True

    def admit(self) -> None:
        """Read more."""
        self.is_full = False

    def advance(self) -> None:
        """Note that pieces were written or left out."""
        self.is_stuck = False

    def look(self, taken: int, position: int, *, has_pending: bool) -> bool:
        """Compare the lane's place with that at the previous look: how many pieces have left it, and the position of
        its writer. Return whether pieces wait and none was written since; the lane is stuck then.
        """
        before, self._place = self._place, (taken, position) if has_pending else _NOWHERE
        stood_still = before == self._place != _NOWHERE
        self.is_stuck |= stood_still
        return stood_still
