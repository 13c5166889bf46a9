"""Dead letters that their topic refuses for good: each try would leave an aborted transaction in its log. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.engine.mapped.transformer import LetterRefused
from isthmus.errors import BrokerRefused

FIRST_PAUSE_S: Final = 4.0
"""Less than a lane waits by itself."""
PAUSE_MAX_S: Final = 60.0


class _RefusedLetter(NamedTuple):
    place: tuple[int, int]
    error: BrokerRefused
    pause_s: float
    until: float


class RefusedLetters:
    """The last letter of each partition that was refused. It is tried again after pauses that double, as the topic may
    have another configuration by then. Times are monotonic (s).
    """

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, int], _RefusedLetter] = {}

    def find(self, key: tuple[str, int], places: Sequence[tuple[int, int]], now: float) -> LetterRefused | None:
        """Return the refusal of one of these letters, if it was refused before and it is too early for another try."""
        known = self._refusals.get(key)
        is_early = known is not None and known.place in places and now < known.until
        return LetterRefused(known.place, known.error) if known is not None and is_early else None

    def note(self, key: tuple[str, int], place: tuple[int, int], error: BrokerRefused, now: float) -> None:
        """Note that a letter was refused."""
        known = self._refusals.get(key)
        pause_s = FIRST_PAUSE_S
        if known is not None and known.place == place:
            pause_s = min(2 * known.pause_s, PAUSE_MAX_S)
        self._refusals[key] = _RefusedLetter(place, error, pause_s, now + pause_s)
