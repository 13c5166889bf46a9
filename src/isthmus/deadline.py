"""Until when something is tried or waited for: every loop with a bound goes by a deadline."""

from __future__ import annotations

import time


class Deadline:
    """The end of a term that begins now, by the monotonic clock.

    A loop that tries until it is over looks like this; it tries at least once:

        deadline = Deadline(term_s)
        while not await is_there():
            if deadline.has_passed:
                raise Unreachable(...)
            await asyncio.sleep(PAUSE_S)
    """

    __slots__ = ("_at",)

    def __init__(self, term_s: float) -> None:
        self._at = time.monotonic() + term_s

    @property
    def has_passed(self) -> bool:
        """Whether the term is over."""
        return time.monotonic() >= self._at

    @property
    def left_s(self) -> float:
        """What is left of the term, 0 once it is over."""
        return max(0.0, self._at - time.monotonic())

    def passes_within(self, pause_s: float) -> bool:
        """Whether the term is over after one more pause: a try after that would come too late."""
        return time.monotonic() + pause_s > self._at
