"""The course of a link's run against its history: a link is ACTIVE only while its session runs."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.errors import IsthmusError, PlanRefused, Unreachable
from isthmus.model.problem import Problem, problem_of
from isthmus.model.state import ControllerState, LinkEvidence, LinkState, link_state
from isthmus.run.state.course import RunCourse, Stage

REACHED, OPENED, AWAY, OUTDATED = "reached", "opened", "away", "outdated"


class Running(RuleBasedStateMachine):
    """Tries of one run, in the order in which they are made. `history` has what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.course = RunCourse()
        self.history: list[str] = []
        self.away: IsthmusError | None = None
        self.error: IsthmusError | None = None
        self.problem: Problem | None = None
        self.is_over = False

    @property
    def last(self) -> str:
        return self.history[-1] if self.history else ""

    @precondition(lambda self: self.error is None and not self.is_over and self.last not in (REACHED, OPENED))
    @rule()
    def reach(self) -> None:
        """Both clusters answer, in a try that has just begun."""
        self.course.reach()
        self.history.append(REACHED)
        self.problem = None

    @precondition(lambda self: self.last == REACHED and self.error is None and not self.is_over)
    @rule()
    def wait(self) -> None:
        """Another controller is there."""
        self.problem = Problem("waiting")
        self.course.wait(self.problem)

    @precondition(lambda self: self.last == REACHED and self.error is None and not self.is_over)
    @rule()
    def open(self) -> None:
        """The session begins."""
        self.course.open()
        self.history.append(OPENED)
        self.problem = None

    @precondition(lambda self: self.error is None and not self.is_over)
    @rule(may_pass=st.booleans(), is_outdated=st.booleans())
    def fail(self, may_pass: bool, is_outdated: bool) -> None:
        """In any part of a try."""
        number = len(self.history)
        error: IsthmusError = Unreachable(f"no. {number}", cluster="a") if may_pass else PlanRefused(f"no. {number}")
        is_last = self.course.fail(error, is_outdated=is_outdated)
        self.problem = problem_of(error)
        if may_pass:
            self.history.append(AWAY)
            self.away = error
        elif is_outdated:
            # Clusters that were away are so until both answer.
            self.history.append(AWAY if self.last == AWAY else OUTDATED)
        else:
            self.error = error
        assert is_last == (self.error is not None)

    @rule(is_meant=st.integers(0, 4))
    def give_up(self, is_meant: int) -> None:
        """Nothing else runs, and a cluster was away for too long."""
        if is_meant:
            return
        is_given_up = self.last == AWAY and self.error is None
        assert self.course.give_up() == is_given_up
        if is_given_up:
            self.error = self.away

    @rule(is_meant=st.integers(0, 9))
    def end(self, is_meant: int) -> None:
        """Once in a while a run ends, wherever it stands."""
        if not is_meant:
            self.course.end()
            self.is_over = True

    @invariant()
    def stands_where_the_last_event_led(self) -> None:
        """An error and the end leave it where it was."""
        expected = {OPENED: Stage.AT_WORK, AWAY: Stage.AWAY}.get(self.last, Stage.OPENING)
        assert (self.course.stage, self.course.error, self.course.problem) == (expected, self.error, self.problem)
        assert self.course.is_at_work == (self.last == OPENED and not self.is_over)

    @invariant()
    def active_is_at_work(self) -> None:
        """Whatever its lanes have reported, and even if quotas hold its ledger back."""
        for is_held in (False, True):
            known = LinkEvidence(
                controller=self.course.find_controller(is_held=is_held),
                has_failed=self.course.error is not None,
                is_away=self.course.stage is Stage.AWAY,
                has_begun=self.course.is_at_work,
            )
            is_active = self.course.is_at_work and self.error is None
            assert (link_state(known) is LinkState.ACTIVE) == is_active
            assert (known.controller is ControllerState.NONE) == self.is_over


TestRunning = Running.TestCase
