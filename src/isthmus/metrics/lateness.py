"""The lag of a lane in time, from ends of its source that were seen one after another. Pure."""

from __future__ import annotations

from typing import Final

_SEEN_MAX: Final = 32


class Lateness:
    """The times at which ends of the source were first seen, as long as they are not copied.

    Only some of many such times are kept: a lane may then seem a little later than it is, never less late.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def lag_s(self, position: int, source_end: int, now: float) -> float | None:
        """Return for how long (s) there has been something to copy that still is, `None` while that is unknown (-1)."""
        if position < 0 or source_end < 0:
            return None
        seen = self._seen
        while seen and seen[0][0] <= position:
            seen.pop(0)
        if source_end > position and (not seen or seen[-1][0] < source_end):
            if len(seen) >= _SEEN_MAX:
                # A joint sample has the end of the later one and the time of the earlier one.
                seen[:] = [(late[0], early[1]) for early, late in zip(seen[::2], seen[1::2], strict=True)]
            seen.append((source_end, now))
        return max(now - seen[0][1], 0.0) if seen else 0.0
