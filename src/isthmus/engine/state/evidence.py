"""Whether a lane shows that it works. ACTIVE follows from recent events only. Pure.

A lane works if its place at the target is known, and if within `QUIET_S` something was written or read, or the source
was found to have nothing more. Reading more while pieces wait to be written is no sign of progress. If requests at one
place are refused again and again, the lane's state shows it after `PATIENCE_S`, until the lane gets past that place:
errors of a moving leader, or that a look at the log explains, pass in less.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem

QUIET_S: Final = 12.0
"""Longer than passing delays: an election, a settling look, a long poll that a busy broker answers late."""
PATIENCE_S: Final = 2.0


class Showing(NamedTuple):
    """A lane at one moment: where it writes (`position`) and reads, and whether pieces that were read wait to be
    written. `at_end` is when (monotonic s) its source was last found to have nothing more that the lane may read now;
    `-inf` for never.
    """

    is_placed: bool
    position: int
    read_offset: int
    has_pending: bool
    at_end: float = -math.inf


class Hindrance(NamedTuple):
    """A problem that occurred `times` times at `place`, first at `since`, last at `last` (monotonic s)."""

    state: LaneState
    problem: Problem
    since: float
    last: float
    place: tuple[int, int]
    times: int


class Evidence:
    """The recent progress and problems of one lane. All times are monotonic seconds; the lane began at `now`."""

    def __init__(self, now: float) -> None:
        self._moved_at = now
        self._position = self._furthest_read = -1
        self._hindrance: Hindrance | None = None

    def hindered(self, state: LaneState, problem: Problem, place: tuple[int, int], now: float) -> int:
        """Note a problem at this place (position, read offset). Return how often it occurred by now."""
        known = self._hindrance
        if known is None or _is_past(known, place):
            known = Hindrance(state, problem, now, now, place, 0)
        self._hindrance = known._replace(state=state, problem=problem, last=now, times=known.times + 1)
        return self._hindrance.times

    def looked(self, course: Showing, now: float) -> None:
        """Take the lane's present course, and compare it with the one before."""
        is_free = course.is_placed and not course.has_pending
        if course.position != self._position or (is_free and course.read_offset > self._furthest_read):
            self._moved_at = now
        self._position = course.position
        self._furthest_read = max(self._furthest_read, course.read_offset)
        at_end = course.at_end if is_free else -math.inf
        self._moved_at = max(self._moved_at, at_end)
        known = self._hindrance
        if known is not None and (at_end > known.last or _is_past(known, (course.position, course.read_offset))):
            self._hindrance = None

    def hindrance(self, now: float) -> Hindrance | None:
        """The problem that recurs and lasts; or one that occurred once, if nothing has moved since for too long."""
        known = self._hindrance
        if known is None or self.is_quiet(now):
            return known
        return known if known.times > 1 and now - known.since >= PATIENCE_S else None

    def is_quiet(self, now: float) -> bool:
        """Whether nothing has moved for too long."""
        return now - self._moved_at >= QUIET_S


def _is_past(hindrance: Hindrance, place: tuple[int, int]) -> bool:
    """Whether the lane has left the place of the problem: the read offset for the source's, else the position."""
    which = hindrance.state is LaneState.SOURCE_UNAVAILABLE
    return hindrance.place[which] != place[which]


def quiet(*, is_placed: bool, has_pending: bool) -> tuple[LaneState, Problem]:
    """The state and problem of a lane that should be active while nothing moves for an unknown reason."""
    if not is_placed:
        what = "where the target's log ends was not to be found out"
    elif has_pending:
        what = "the target acknowledged none of the waiting records"
    else:
        what = "nothing was heard of the source's log"
    state = LaneState.TARGET_UNAVAILABLE if has_pending or not is_placed else LaneState.SOURCE_UNAVAILABLE
    hint = (
        "Check the brokers that lead the partition, their replicas, and the quotas of the user of Isthmus. The "
        "lane goes on by itself."
    )
    return state, Problem(f"{what} for more than {QUIET_S:g} s", hint)
