"""Documents of the state of a link's loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.loop import VERIFY_TASK, LoopProgress, LoopState
from isthmus.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDocument(DocumentOfLink):
    """The state of one loop of a link (`model.loop`), and its last error."""

    KIND: ClassVar[str] = "loop"

    loop: str
    state: str
    problem: Problem | None = None

    def _path(self) -> tuple[str, ...]:
        return (self.loop,)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationDocument(DocumentOfLink):
    """The result of the last comparison of all topics of a link: a `problem`, or None if both sides are alike."""

    KIND: ClassVar[str] = "verification"

    records: int
    problem: Problem | None = None


def verify_loop(found: VerificationDocument | None, *, age_s: float = 0.0) -> LoopProgress:
    """The state of the verification of all topics, from the last one `age_s` ago; NOT_CONFIGURED if there was none."""
    if found is None:
        return LoopProgress(loop=VERIFY_TASK, state=LoopState.NOT_CONFIGURED)
    state = LoopState.ACTIVE if found.problem is None else LoopState.IN_ERROR
    return LoopProgress(loop=VERIFY_TASK, state=state, problem=found.problem, age_s=age_s)
