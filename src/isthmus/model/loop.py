"""The loops of a link: each keeps one kind of thing beside the data the same. Their state, and the changes they would
make.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from isthmus.model.problem import Problem
from isthmus.model.text.plain import PlainValue, tenths

DATA_TASK: Final = "data"
TOPICS_TASK: Final = "topics"
GROUPS_TASK: Final = "groups"
VERIFY_TASK: Final = "verify"
"""The last result of `isthmus verify`; a run does the other tasks."""


class LoopState(enum.StrEnum):
    """How a loop of a link stands."""

    ACTIVE = "ACTIVE"
    """The last look found everything as it should be."""
    PAUSED = "PAUSED"
    """An operator has paused it, or the link."""
    IN_ERROR = "IN_ERROR"
    """A look or a change failed; it is tried again."""
    NOT_CONFIGURED = "NOT_CONFIGURED"
    """The link is not configured to do it."""
    STOPPED = "STOPPED"
    """No live controller would do it."""
    UNKNOWN = "UNKNOWN"
    """The ledger cannot be read, or the controller has not reported yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgress(PlainValue):
    """How a task of a link stands.

    So it stood `age_s` seconds ago, with its last error.
    """

    SCHEMA: ClassVar = "LoopStatus"

    loop: str
    state: LoopState
    age_s: Annotated[float, "age_seconds", tenths] = 0.0
    problem: Problem | None = None

    def paused_by(self, *, is_paused: bool) -> LoopProgress:
        """Return its state while an operator has paused it: with its last error. A loop that is not configured is not
        paused either.
        """
        if not is_paused or self.state is LoopState.NOT_CONFIGURED:
            return self
        return replace(self, state=LoopState.PAUSED)

    @property
    def trouble(self) -> Problem | None:
        """The last error of the loop, unless an operator paused it."""
        return None if self.state is LoopState.PAUSED else self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(PlainValue):
    """One change of a loop at the target: of `setting` of `subject`, such as `retention.ms` of `topic orders`.

    `None` stands for what is not there, so that a change without `before` creates and one without `after` removes.
    With a `problem` it cannot be made, for that reason; that is no failure if it `is_by_design`.
    """

    loop: str
    subject: str
    setting: str
    before: str | None
    after: str | None
    problem: Problem | None = None
    is_by_design: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it should be made and cannot."""
        return self.problem is not None and not self.is_by_design
