"""The known facts about a partition's log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class LogRange:
    """A log's offsets `[start, end)`; those before `stable_end` are in no open transaction. `leader_epoch` is that of
    the leader that reported them, -1 if no leader was asked.
    """

    start: int
    stable_end: int
    end: int
    leader_epoch: int = field(default=-1, compare=False)

    def up_to(self, stable_end: int) -> LogRange:
        """Return the log without records that came since it ended there; as many as before wait for open transactions
        behind it.
        """
        since = max(self.stable_end - stable_end, 0)
        return replace(self, stable_end=self.stable_end - since, end=self.end - since)
