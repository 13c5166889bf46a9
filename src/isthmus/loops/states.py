"""The progress of data, topics and groups of a link, in the form of loops. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from isthmus.model.lane import LaneReport
from isthmus.model.loop import DATA_TASK, GROUPS_TASK, TOPICS_TASK, LoopProgress, LoopState
from isthmus.model.problem import Problem
from isthmus.topics.plan import LinkPlan


def topics_loop(plan: LinkPlan | None, away: Problem | None, *, is_paused: bool) -> LoopProgress:
    """Return the progress of finding and creating topics: `away` is why that is impossible now."""
    refused: Iterator[Problem] = iter(())
    if plan is not None:
        refused = (reason for topic in plan.topics for reason in topic.reasons)
    problem = away or (None if plan is None else plan.problem) or next(refused, None)
    return _loop(TOPICS_TASK, problem, is_paused=is_paused)


def data_loop(reports: Collection[LaneReport], trouble: Problem | None, *, is_paused: bool) -> LoopProgress:
    """Return the progress of copying: `trouble` is a problem of the leases as a whole."""
    unwell = (report.problem for report in reports if not report.state.is_calm)
    problem = trouble or next((problem for problem in unwell if problem is not None), None)
    return _loop(DATA_TASK, problem, is_paused=is_paused)


def groups_loop(problem: Problem | None, *, is_configured: bool, is_paused: bool) -> LoopProgress:
    """Return the progress of carrying groups as a whole; each group has a state of its own."""
    if not is_configured:
        return LoopProgress(loop=GROUPS_TASK, state=LoopState.NOT_CONFIGURED)
    return _loop(GROUPS_TASK, problem, is_paused=is_paused)


def _loop(loop: str, problem: Problem | None, *, is_paused: bool) -> LoopProgress:
    state = LoopState.ACTIVE if problem is None else LoopState.IN_ERROR
    return LoopProgress(loop=loop, state=state, problem=problem).paused_by(is_paused=is_paused)
