"""The offsets of a lane for which the source has no record, and what takes their place at the target. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus.model.lane import Gap


class Prefix(NamedTuple):
    """Fillers for offsets up to `end` that the source has deleted; `is_stored` means that some are in the log."""

    end: int
    is_stored: bool


@dataclass(slots=True)
class Missing:
    """The offsets of one lane without a record.

    `prefix` are fillers that have to be written or deleted before anything else, `None` without any. `holes` counts the
    offsets within the source's log that were filled because it has no record there. `gaps` are what the source deleted
    before it was copied, and the lane may pass.
    """

    prefix: Prefix | None = None
    holes: int = 0
    gaps: list[Gap] = field(default_factory=list)

    @property
    def gap_end(self) -> int:
        """The end of the last gap that the lane may pass, -1 without one."""
        return self.gaps[-1].offset_end if self.gaps else -1

    def fill_prefix(self, end: int, *, is_stored: bool) -> None:
        """Require fillers up to `end`; with `is_stored` some are in the log, which are deleted once they reach it. What
        is known to be stored stays known.
        """
        self.prefix = Prefix(end, is_stored or (self.prefix is not None and self.prefix.is_stored))

    def drop_prefix(self) -> None:
        """Note that the fillers are deleted."""
        self.prefix = None

    def count_holes(self, offsets: int) -> None:
        """Count offsets that are about to be filled."""
        self.holes += offsets

    def pass_gap(self, gap: Gap) -> None:
        """Let the lane pass a gap."""
        if gap not in self.gaps:
            self.gaps.append(gap)
