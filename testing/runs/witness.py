"""What is to be seen of lanes while a fault lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.problem import Problem
from testing.runs.mirror import Reports, Running


async def until_all_advance(
    running: Running,
    keys: Collection[LaneKey] | None = None,
    *,
    records: int = 20,
    may_end: bool = False,
) -> None:
    """Wait until lanes (all of them by default) have each copied some more records, from now on."""
    before = {key: report.position for key, report in running.reports.items() if keys is None or key in keys}

    def have_advanced(reports: Reports) -> bool:
        return all(reports[key].position >= position + records for key, position in before.items())

    await running.until(have_advanced, may_end=may_end)


async def until_one_advances(*rivals: Running, records: int) -> None:
    """Wait until every lane has copied some more records in one engine or another, from now on."""
    before = {key: max(rival.reports[key].position for rival in rivals) for key in rivals[0].reports}

    def have_advanced(_: Reports) -> bool:
        ends = {key: max(rival.reports[key].position for rival in rivals) for key in before}
        return all(ends[key] >= position + records for key, position in before.items())

    await asyncio.gather(*(rival.until(have_advanced) for rival in rivals))


async def until_told(running: Running, key: LaneKey, state: LaneState, *words: str) -> LaneReport:
    """Wait until a lane is in a state; its problem contains all words, and it says what to do."""
    found: list[LaneReport] = []

    def is_told(reports: Reports) -> bool:
        if reports[key].state is state:
            found.append(reports[key])
        return bool(found)

    await running.until(is_told, may_end=True)
    assert_told(found[0].problem, *words)
    return found[0]


def assert_told(problem: Problem | None, *words: str) -> None:
    """A problem names its cause and what to do about it."""
    assert problem is not None
    for word in words:
        assert word in problem.message, problem
    assert problem.hint, problem
