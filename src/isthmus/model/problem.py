"""Why something is not as it should be, for people."""

from __future__ import annotations

from dataclasses import dataclass

from isthmus.errors import IsthmusError


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a lane is not simply active: a sentence for people, and what to do about it."""

    message: str
    hint: str = ""


def problem_of(error: IsthmusError) -> Problem:
    """An error as the reason why something cannot be done."""
    return Problem(error.message, error.hint)


def problem_dict(problem: Problem) -> dict[str, str]:
    """A problem as plain values."""
    return {"message": problem.message, "hint": problem.hint}
