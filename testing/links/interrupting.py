"""Verbs whose process ends before each of their steps, one after the other, and which are given again every time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import pytest

from isthmus.memory import declarations
from testing.runs.recovering import Interrupted, interrupted_at

ResultT = TypeVar("ResultT")
_STEPS_MAX: Final = 60
_ENDING: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("ending", default=None)
"""Only who gives the command ends: controllers of the same process go on writing."""


async def finished(
    verb: Callable[[Callable[[str], None]], Awaitable[ResultT]], monkeypatch: pytest.MonkeyPatch
) -> tuple[ResultT, list[str]]:
    """What comes of a verb once it is through, and the steps it took then: those that it tells, and each write to a
    ledger. Before that it has ended before each of these once.
    """
    write: Any = declarations._Place.write

    async def written(place: Any, what: str, made: Any, **options: Any) -> Any:
        if (ending := _ENDING.get()) is not None:
            ending(f"writing {what} at {place.alias}")
        return await write(place, what, made, **options)

    monkeypatch.setattr(declarations._Place, "write", written)
    for step in range(_STEPS_MAX):
        steps: list[str] = []
        ending = interrupted_at(step, steps)
        token = _ENDING.set(ending)
        try:
            return await verb(ending), steps
        except Interrupted:
            continue
        finally:
            _ENDING.reset(token)
    raise AssertionError(f"it takes more than {_STEPS_MAX} steps")
