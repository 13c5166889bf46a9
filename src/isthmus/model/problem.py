"""Why something is not as it should be, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypedDict

from isthmus.errors import (
    AuthenticationFailed,
    ClusterError,
    IsthmusError,
    NotAuthorized,
    Unreachable,
    UnsupportedByBroker,
    error_classes,
)

_OF_CLUSTERS: Final = {
    each.error_code: each for each in (Unreachable, AuthenticationFailed, NotAuthorized, UnsupportedByBroker)
}


class ProblemJson(TypedDict):
    """Why something is not as it should be; `code` is null where that comes from no error."""

    message: str
    hint: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a lane is not simply active: a sentence for people, and what to do about it.

    `code` is that of the error it comes from (ISTH-...), "" where it was found otherwise.
    """

    message: str
    hint: str = ""
    code: str = ""

    @property
    def in_full(self) -> str:
        """The sentence and what to do, on one line."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


def problem_of(error: IsthmusError) -> Problem:
    """An error as the reason why something cannot be done."""
    return Problem(error.message, error.hint, error.error_code)


def exit_code_of(problems: Iterable[Problem | None]) -> int:
    """The exit code where these are the problems of links, `None` of one that has none.

    That of the first problem where every link has one, 1 where only some have, else 0.
    """
    listed = list(problems)
    found = [problem for problem in listed if problem is not None]
    if not found or len(found) < len(listed):
        return int(bool(found))
    codes = {each.error_code: each.exit_code for each in error_classes()}
    return codes.get(found[0].code, IsthmusError.exit_code)


def cluster_error(problem: Problem, message: str, *, cluster: str) -> ClusterError:
    """The error, of the kind that the problem comes from, that a cluster cannot be had for something."""
    return _OF_CLUSTERS.get(problem.code, ClusterError)(message, cluster=cluster, hint=problem.hint)


def problem_dict(problem: Problem) -> ProblemJson:
    """A problem as plain values; its code is null where it comes from no error."""
    return {"message": problem.message, "hint": problem.hint, "code": problem.code or None}
