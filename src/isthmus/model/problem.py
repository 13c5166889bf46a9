"""Reasons why something is not as it should be, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from isthmus.errors import (
    AuthenticationFailed,
    ClusterError,
    IsthmusError,
    NotAuthorized,
    Unreachable,
    UnsupportedByBroker,
    error_classes,
)
from isthmus.model.text.plain import TextOrNull

_OF_CLUSTERS: Final = {
    each.error_code: each for each in (Unreachable, AuthenticationFailed, NotAuthorized, UnsupportedByBroker)
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something is not as it should be; `code` is null where that comes from no error.

    `message` is a sentence for people, `hint` the remedy. `code` is that of the error it comes from (ISTH-...), ""
    without an error.
    """

    message: str
    hint: str = ""
    code: TextOrNull = ""

    @property
    def in_full(self) -> str:
        """The sentence and the remedy, on one line."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


def problem_of(error: IsthmusError) -> Problem:
    """Return an error as a problem."""
    return Problem(error.message, error.hint, error.error_code)


def all_in_full(problems: Iterable[Problem]) -> str:
    """The sentences of several problems, and then each remedy once, on one line."""
    found = list(problems)
    messages, hints = (dict.fromkeys(each.message for each in found), dict.fromkeys(each.hint for each in found))
    return Problem("; ".join(messages), " ".join(filter(None, hints))).in_full


def join_alike(problems: Iterable[tuple[int, Problem | None]]) -> list[tuple[str, Problem]]:
    """Join the problems of consecutive partitions that are the same; those without one are left out."""
    runs: list[tuple[int, int, Problem]] = []
    for partition, problem in problems:
        if problem is None:
            continue
        if runs and runs[-1][1:] == (partition - 1, problem):
            runs[-1] = (runs[-1][0], partition, problem)
        else:
            runs.append((partition, partition, problem))
    return [
        (f"partition {first}" if first == last else f"partitions {first} to {last}", problem)
        for first, last, problem in runs
    ]


def exit_code_of(problems: Iterable[Problem | None]) -> int:
    """Return the exit code for the problems of links, `None` for one without.

    That of the first problem if every link has one, 1 if only some have, else 0.
    """
    listed = list(problems)
    found = [problem for problem in listed if problem is not None]
    if not found or len(found) < len(listed):
        return int(bool(found))
    codes = {each.error_code: each.exit_code for each in error_classes()}
    return codes.get(found[0].code, IsthmusError.exit_code)


def cluster_error(problem: Problem, message: str, *, cluster: str = "") -> ClusterError:
    """Return an error of the problem's kind: a cluster is not available for a purpose."""
    return _OF_CLUSTERS.get(problem.code, ClusterError)(message, cluster=cluster, hint=problem.hint)
