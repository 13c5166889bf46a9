"""What is known of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class LogRange:
    """A log's offsets `[start, end)`; what is before `stable_end` is in no open transaction. `leader_epoch` is that in
    which its leader said so, -1 where nobody was asked.
    """

    start: int
    stable_end: int
    end: int
    leader_epoch: int = field(default=-1, compare=False)

    def up_to(self, stable_end: int) -> LogRange:
        """The log without what came since it ended there; as much as before waits for open transactions behind it."""
        since = max(self.stable_end - stable_end, 0)
        return replace(self, stable_end=self.stable_end - since, end=self.end - since)
