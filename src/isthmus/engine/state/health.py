"""What keeps a lane from working, and if nothing does, whether it shows that it works. Pure.

    STARTING ──heal──▶ working ──fail──▶ a passing state ──heal──▶ working        any ──hold──▶ HELD
    any ──fail──▶ STOPPED or a terminal state, which is never left

No event makes a lane ACTIVE. It is reported as ACTIVE while nothing keeps it from working, and something of it was
placed, written or read lately, or its source was found to have nothing more: see `evidence`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.engine.state.evidence import Evidence, Showing, quiet
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem

HEALING_STATES: Final = (
    LaneState.STARTING,
    LaneState.SOURCE_UNAVAILABLE,
    LaneState.TARGET_UNAVAILABLE,
    LaneState.NOT_AUTHORIZED,
    LaneState.BLOCKED,
)


class Obstacle(NamedTuple):
    """What keeps a lane from working: a state other than ACTIVE, with its reason if there is one."""

    state: LaneState
    problem: Problem | None = None


_BEGINNING: Final = Obstacle(LaneState.STARTING)


@dataclass(slots=True)
class Health:
    """The obstacle of one lane, and the evidence of its recent progress and problems.

    `obstacle` is `None` while nothing is known to keep the lane from working. `failed_at` is when it failed last
    (monotonic s). The lane `is_over` once it failed for good.
    """

    evidence: Evidence
    obstacle: Obstacle | None = _BEGINNING
    failed_at: float = -math.inf
    is_over: bool = False

    @property
    def state(self) -> LaneState:
        """The state of the obstacle; ACTIVE without one, whatever the evidence is."""
        return LaneState.ACTIVE if self.obstacle is None else self.obstacle.state

    @property
    def problem(self) -> Problem | None:
        """The reason of the obstacle, if there is one."""
        return None if self.obstacle is None else self.obstacle.problem

    def fail(self, state: LaneState, problem: Problem, place: tuple[int, int], now: float) -> None:
        """Enter a state other than ACTIVE, with its reason, at a place (position, read offset)."""
        if self.is_over:
            return
        self.obstacle, self.failed_at = Obstacle(state, problem), now
        self.is_over = state.is_terminal or state is LaneState.STOPPED
        if not self.is_over:
            self.hinder(state, problem, place, now)

    def hinder(self, state: LaneState, problem: Problem, place: tuple[int, int], now: float) -> int:
        """Note a problem that may pass by itself: it is reported only if it recurs. Return how often it occurred at
        this place.
        """
        return self.evidence.hindered(state, problem, place, now)

    def hold(self) -> None:
        """Enter the state HELD: the lane's place is known, and it does not copy."""
        if not self.is_over:
            self.obstacle = Obstacle(LaneState.HELD)

    def heal(self) -> None:
        """Leave a passing state: its reason has gone."""
        if self.obstacle is not None and self.obstacle.state in HEALING_STATES:
            self.obstacle = None

    def find_state(self, course: Showing, now: float, *, may_heal: bool) -> tuple[LaneState, Problem | None]:
        """The state and problem that follow from the lane's present course and its recent evidence. With `may_heal` a
        source that was found to have nothing more, since the lane failed, is the end of a passing state.
        """
        self.evidence.looked(course, now)
        is_free = course.is_placed and not course.has_pending
        if may_heal and is_free and course.at_end > self.failed_at:
            self.heal()
        state = self.state
        if state in (LaneState.STARTING, LaneState.ACTIVE) and (found := self.evidence.hindrance(now)) is not None:
            return found.state, found.problem
        if state is LaneState.ACTIVE and self.evidence.is_quiet(now):
            return quiet(is_placed=course.is_placed, has_pending=course.has_pending)
        return state, self.problem
