"""What a link keeps alike beside its data, one loop for each kind of thing: how it stands, and what it would change."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Annotated, Final, TypedDict

from isthmus.model.plain import OwnFields, plain, plain_fields
from isthmus.model.problem import Problem, ProblemJson

DATA_TASK: Final = "data"
TOPICS_TASK: Final = "topics"
GROUPS_TASK: Final = "groups"
VERIFY_TASK: Final = "verify"
"""What `isthmus verify` found last; the others are done by a run."""


class LoopState(enum.StrEnum):
    """How a loop of a link stands."""

    ACTIVE = "ACTIVE"
    """What it last looked at is as it should be."""
    PAUSED = "PAUSED"
    """An operator has paused it, or the link."""
    IN_ERROR = "IN_ERROR"
    """Something could not be looked at, or not be changed; it is tried again."""
    NOT_CONFIGURED = "NOT_CONFIGURED"
    """The link is not to do it."""
    STOPPED = "STOPPED"
    """No controller is alive that would do it."""
    UNKNOWN = "UNKNOWN"
    """The ledger cannot be read, or the controller has not said yet."""


class LoopStatusJson(TypedDict):
    """How a task of a link stands."""

    loop: str
    state: Annotated[str, LoopState]
    age_seconds: float
    problem: ProblemJson | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgress:
    """One loop of a link as it stood `age_s` seconds ago, with its last error."""

    loop: str
    state: LoopState
    problem: Problem | None = None
    age_s: float = 0.0

    def paused_by(self, *, is_paused: bool) -> LoopProgress:
        """As it stands if somebody paused it: with its last error. What is not to be done is not paused either."""
        if not is_paused or self.state is LoopState.NOT_CONFIGURED:
            return self
        return replace(self, state=LoopState.PAUSED)

    @property
    def trouble(self) -> Problem | None:
        """What ails it: its last error, unless somebody paused it."""
        return None if self.state is LoopState.PAUSED else self.problem

    def as_dict(self) -> LoopStatusJson:
        """Plain values under stable names."""
        return {
            "loop": self.loop,
            "state": str(self.state),
            "age_seconds": round(self.age_s, 1),
            "problem": plain(self.problem),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing at the target that a loop is to change: `setting` of `subject`, `retention.ms` of `topic orders` say.

    `None` stands for what is not there, so that a change without `before` creates and one without `after` removes.
    With a `problem` it cannot be made, for that reason.
    """

    loop: str
    subject: str
    setting: str
    before: str | None
    after: str | None
    problem: Problem | None = None

    def as_dict(self) -> OwnFields:
        """Plain values under stable names."""
        return plain_fields(self)
