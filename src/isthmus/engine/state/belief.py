"""Whether the end of the target's log is believed to be our work, and how far the target was ever known to be right.

    CONTENT or PRODUCER ──believe──▶ DONE ──doubt, expect──▶ CONTENT or PRODUCER

Pure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from isthmus.model.lane import NO_END, Lane, LaneMark, Milestone
from isthmus.model.problem import Problem


class TailCheck(enum.Enum):
    """The check that is needed before the end of the target's log is believed to be our work."""

    DONE = enum.auto()
    PRODUCER = enum.auto()
    """The last batch has to carry a producer id of ours: the previous owner handed the lane over in good order."""
    CONTENT = enum.auto()
    """The last record has to be the source's."""


@dataclass(slots=True)
class Belief:
    """The belief in the end of one target log.

    `check` is the check still needed, and `source_epoch` the source's leader epoch at the last one. `tail_epoch` is the
    leader epoch of the source's record at the end, -1 unless it was compared. `beyond` names others that may have
    written records beyond the source's end, if there are any. `is_known` means that the log ends where this owner has
    left it, or the previous one by its mark `left`: if the source has another record there, the source has changed.
    `milestone` is the lane's last stored progress. `target_start` is where the target's log began at the last look at
    its end, 0 while that is not known.

    Up to `believed_end` the target was last known to hold the source's records, -1 before. Where it holds others, it is
    right up to `proven_end`, -1 if that is not known; `NO_END` while it is not known to hold others.
    """

    check: TailCheck = TailCheck.CONTENT
    source_epoch: int = -1
    tail_epoch: int = -1
    beyond: Problem | None = None
    is_known: bool = False
    left: LaneMark | None = None
    milestone: Milestone | None = None
    target_start: int = 0
    believed_end: int = -1
    proven_end: int = NO_END

    def recall(self, mark: LaneMark | Milestone, lane: Lane) -> None:
        """Keep the mark of the previous owner, or the milestone if it is of the same topics."""
        if isinstance(mark, LaneMark):
            self.left = mark
        elif mark.is_of(lane):
            self.milestone = mark

    def look(self, expected_end: int) -> None:
        """Take note that the log was looked at, where it was expected to end at `expected_end`; -1 at the first look.
        Up to there it is believed, or at the first look as far as the previous owner is known to have been.
        """
        self.tail_epoch = -1
        if expected_end < 0:
            been = self.left or self.milestone
            self.believed_end = -1 if been is None else been.position
        elif self.check is TailCheck.DONE:
            self.believed_end = expected_end

    def expect(self, check: TailCheck, *, is_known: bool) -> None:
        """Require a check of a log that does not end where it was expected to."""
        self.check, self.is_known = check, is_known

    def doubt(self) -> None:
        """Require that the last record of the target's log is compared with the source's again."""
        self.check = TailCheck.CONTENT

    def compare(self, tail_epoch: int, beyond: Problem | None, target_start: int) -> None:
        """Take what a comparison of both logs has found."""
        self.tail_epoch, self.beyond, self.target_start = tail_epoch, beyond, target_start

    def believe(self, source_epoch: int) -> None:
        """Note that the end of the target's log is our work, compared with the source in this leader epoch."""
        self.check, self.is_known, self.source_epoch = TailCheck.DONE, True, source_epoch

    def disprove(self, proven_end: int, position: int) -> None:
        """Note that the target, which ends at `position`, holds other records than the source. It is right up to
        `proven_end`, or if that is -1, as far as it was ever known to be.
        """
        been = [each.position for each in (self.left, self.milestone) if each is not None]
        right = [end for end in (proven_end, self.believed_end, *been) if end < position]
        self.proven_end = proven_end if proven_end >= 0 else max(right, default=-1)
