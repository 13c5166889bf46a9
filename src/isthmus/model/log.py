"""What is known of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LogRange:
    """A log's offsets `[start, end)`; what is before `stable_end` is in no open transaction."""

    start: int
    stable_end: int
    end: int

    def up_to(self, stable_end: int) -> LogRange:
        """The log without what came since it ended there; as much as before waits for open transactions behind it."""
        since = max(self.stable_end - stable_end, 0)
        return replace(self, stable_end=self.stable_end - since, end=self.end - since)
