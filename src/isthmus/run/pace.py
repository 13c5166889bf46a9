"""Decide how often work is done, by the time it takes."""

from __future__ import annotations

from typing import Final

_SHARE: Final = 50
LONGEST_S: Final = 5.0


class Pace:
    """Lets work be done so seldom that it takes a fiftieth of a processor, but every five seconds whatever it takes.
    All times in seconds.
    """

    def __init__(self) -> None:
        self._due_at = 0.0

    def is_due(self, now: float) -> bool:
        """Whether the work is due at this time of the monotonic clock."""
        return now >= self._due_at

    def took(self, now: float, processor_s: float) -> None:
        """Note that the work was done just now, and took so much of a processor's time."""
        self._due_at = now + min(processor_s * (_SHARE - 1), LONGEST_S)
