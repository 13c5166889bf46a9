"""The health of a lane against a model: it is reported as ACTIVE only while something shows that it works."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.engine.state.evidence import QUIET_S, Evidence, Showing
from isthmus.engine.state.health import HEALING_STATES, Health
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem

OVER = [state for state in LaneState if state.is_terminal or state is LaneState.STOPPED]
PASSING = [state for state in HEALING_STATES if state is not LaneState.STARTING]


class Living(RuleBasedStateMachine):
    """A lane that reads, writes, fails and heals, and is looked at after each event.

    `shown_at` is when it last wrote, or with nothing to write read or was found to be at its source's end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.shown_at = 0.0
        self.health = Health(Evidence(self.now))
        self.position = self.read_offset = 0
        self.furthest = -1
        self.is_placed = True
        self.at_end = -math.inf
        self.state, self.reported = LaneState.STARTING, LaneState.STARTING
        self.problem: Problem | None = None
        self.look()

    def look(self, *, may_heal: bool = True) -> None:
        """A report is made."""
        has_pending = self.position < self.read_offset
        is_free = self.is_placed and not has_pending
        if is_free:
            self.shown_at = max(self.shown_at, self.at_end, self.now if self.read_offset > self.furthest else 0.0)
        self.furthest = max(self.furthest, self.read_offset)
        if may_heal and is_free and self.at_end > self.health.failed_at and self.state in HEALING_STATES:
            self.state, self.problem = LaneState.ACTIVE, None
        course = Showing(self.is_placed, self.position, self.read_offset, has_pending, self.at_end)
        self.reported, _ = self.health.find_state(course, self.now, may_heal=may_heal)

    @rule(after_s=st.floats(0.01, 8.0), may_heal=st.booleans())
    def wait(self, after_s: float, may_heal: bool) -> None:
        """Time passes. With fillers to write a lane does not heal by itself."""
        self.now += after_s
        self.look(may_heal=may_heal)

    @rule()
    def read(self) -> None:
        """Something comes."""
        self.read_offset += 1
        self.look()

    @precondition(lambda self: self.position < self.read_offset)
    @rule()
    def write(self) -> None:
        """Something is durable."""
        self.position += 1
        self.shown_at = self.now
        self.look()

    @rule(is_placed=st.booleans())
    def lose_place(self, is_placed: bool) -> None:
        """The place comes into doubt, or is found."""
        self.is_placed = is_placed
        self.look()

    @rule()
    def find_end(self) -> None:
        """The source has nothing more."""
        self.at_end = self.now
        self.look()

    @rule(state=st.sampled_from([*PASSING, LaneState.STARTING]), only_hinders=st.booleans())
    def fail(self, state: LaneState, only_hinders: bool) -> None:
        """Something may pass by itself, and then it is no state."""
        problem, place = Problem(f"at {self.now}"), (self.position, self.read_offset)
        if only_hinders:
            self.health.hinder(state, problem, place, self.now)
        else:
            self.health.fail(state, problem, place, self.now)
            if self.state not in OVER:
                self.state, self.problem = state, problem

    @rule(state=st.sampled_from(OVER), is_meant=st.integers(0, 9))
    def end(self, state: LaneState, is_meant: int) -> None:
        """Once in a while a lane ends."""
        if is_meant == 0:
            problem = Problem("over")
            self.health.fail(state, problem, (self.position, self.read_offset), self.now)
            if self.state not in OVER:
                self.state, self.problem = state, problem
            self.look()

    @rule()
    def heal(self) -> None:
        """What kept it from working has gone: that alone does not show that it works."""
        self.health.heal()
        if self.state in HEALING_STATES:
            self.state, self.problem = LaneState.ACTIVE, None
        self.look()

    @rule(is_meant=st.integers(0, 9))
    def hold(self, is_meant: int) -> None:
        """Its distributor switches to another leaf."""
        if is_meant == 0:
            self.health.hold()
            if self.state not in OVER:
                self.state, self.problem = LaneState.HELD, None
            self.look()

    @invariant()
    def obstacle_is_the_last_one(self) -> None:
        """A terminal state is never left."""
        assert (self.health.state, self.health.problem) == (self.state, self.problem)
        assert self.health.is_over == (self.state in OVER)

    @invariant()
    def active_is_shown(self) -> None:
        """Whatever was called, and not called."""
        if self.reported is LaneState.ACTIVE:
            assert self.now - self.shown_at < QUIET_S
        if self.state in OVER and self.reported is not self.state:
            self.look()
            assert self.reported is self.state


TestLiving = Living.TestCase
