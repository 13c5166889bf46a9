"""The course of one link's run: whether it is about to open the link, has to wait for a cluster, or is at work.

    OPENING ──open──▶ AT_WORK            AWAY ──reach──▶ OPENING
    OPENING, AT_WORK ──fail──▶ AWAY, where the error may pass, or OPENING, where the settings have changed since

Any other error is the run's last, and then, as at its end, it stays where it is. Pure.
"""

from __future__ import annotations

import enum

from isthmus.errors import IsthmusError
from isthmus.model.problem import Problem, problem_of
from isthmus.model.state import ControllerState


class Stage(enum.Enum):
    """What the run of a link does."""

    OPENING = enum.auto()
    """It looks for the clusters, waits for other controllers, or opens the ledger."""
    AWAY = enum.auto()
    """A cluster did not answer: it begins again with looking for both."""
    AT_WORK = enum.auto()
    """Its session runs."""


class RunCourse:
    """Where the run of a link stands. `problem` is what is in its way or what it waits for, `error` what ends it."""

    def __init__(self) -> None:
        self.stage = Stage.OPENING
        self.problem: Problem | None = None
        self.error: IsthmusError | None = None
        self._away: IsthmusError | None = None
        self._is_over = False

    def reach(self) -> None:
        """Both clusters answer."""
        self.stage, self.problem = Stage.OPENING, None

    def wait(self, problem: Problem) -> None:
        """It waits for something that the problem names."""
        self.problem = problem

    def open(self) -> None:
        """The ledger is open, and the session begins."""
        self.stage, self.problem = Stage.AT_WORK, None

    def fail(self, error: IsthmusError, *, is_outdated: bool = False) -> bool:
        """The try ends by this error; return whether there is no other one. `is_outdated`: the settings have changed
        since it began, and the error says nothing about the new ones.
        """
        self.problem = problem_of(error)
        if error.retryable:
            self.stage, self._away = Stage.AWAY, error
        elif not is_outdated:
            self.error = error
        elif self.stage is Stage.AT_WORK:
            self.stage = Stage.OPENING
        return self.error is not None

    def give_up(self) -> bool:
        """Make the cluster that is waited for the error of the run; return whether there is one."""
        if self.stage is Stage.AWAY and self.error is None:
            self.error = self._away
            return True
        return False

    def end(self) -> None:
        """The run is over, with an error or as asked."""
        self._is_over = True

    @property
    def is_at_work(self) -> bool:
        """Whether its session runs now."""
        return self.stage is Stage.AT_WORK and not self._is_over

    def find_controller(self, *, is_held: bool) -> ControllerState:
        """Return the state of this process as the link's controller. `is_held`: a quota delays what it writes."""
        if self._is_over:
            return ControllerState.NONE
        return ControllerState.THROTTLED if is_held else ControllerState.ALIVE
