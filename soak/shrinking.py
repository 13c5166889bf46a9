"""Finds the shortest schedule after which a violation still happens, by leaving out one action after another."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from soak.conditions import Conditions
from soak.history import read_history
from soak.run import Note, Run
from soak.schedule import Schedule, schedule_of
from soak.session import perform

_SPARE_MINUTES: Final = 0.25
"""A schedule without any action lasts this long."""
Happens = Callable[[Schedule], bool]


def run_of(history: Path, folder: Path) -> tuple[Run, frozenset[str]]:
    """The run a history is of, with only the actions that were begun in it, and the invariants it violated. What failed
    half-way is among them, for it may have broken something first; what could not be done at all is not.

    :raises ValueError: The history is of no run that was judged.
    """
    events = read_history(history)
    begun = next((event for event in events if event["kind"] == "run"), None)
    verdict = next((event for event in events if event["kind"] == "verdict"), None)
    if begun is None or verdict is None:
        raise ValueError(f"{history} is not the history of a run that was judged")
    phases = {"begin": set[int](), "skipped": set[int]()}
    for event in events:
        if event["kind"] == "fault" and event["phase"] in phases:
            phases[event["phase"]].add(event["number"])
    run = Run(
        seed=begun["seed"],
        minutes=begun["minutes"],
        contender=begun["contender"],
        schedule=schedule_of(json.loads(begun["schedule"])).only(phases["begin"] - phases["skipped"]),
        conditions=Conditions(**begun["conditions"]),
        folder=folder,
    )
    return run, frozenset(_invariant(text) for text in verdict["violations"])


def shortest(schedule: Schedule, happens: Happens) -> Schedule:
    """What is left of a schedule when no single action can be left out without the violation going away.

    Halves are tried first: most actions have nothing to do with it.
    """
    kept, size = [action.number for action in schedule.actions], max(len(schedule.actions) // 2, 1)
    while kept:
        begin, was_shortened = 0, False
        while begin < len(kept):
            fewer = kept[:begin] + kept[begin + size :]
            if happens(schedule.only(fewer)):
                kept, was_shortened = fewer, True
            else:
                begin += size
        if size == 1 and not was_shortened:
            break
        size = max(size // 2, 1)
    return schedule.only(kept)


def shrink(history: Path, note: Note, *, tries: int) -> Path:
    """Do the run of a history again and again with fewer actions; each is tried so often before it counts as needed.

    Returns the file of the shortest schedule.

    :raises ValueError: The history is of no run that violated anything.
    """
    folder = Path(tempfile.mkdtemp(prefix="isthmus-soak-shrink-"))
    run, wanted = run_of(history, folder)
    if not wanted:
        raise ValueError(f"nothing was violated in {history}")
    count = 0

    def happens(schedule: Schedule) -> bool:
        nonlocal count
        for _ in range(tries):
            count += 1
            note(f"try {count}: {', '.join(action.fault for action in schedule.actions) or 'nothing'}")
            place = folder / f"try-{count}"
            place.mkdir()
            shorter = replace(run, schedule=schedule, folder=place, minutes=_SPARE_MINUTES, is_whole=True)
            found = perform(shorter, lambda _: None)
            if wanted & {_invariant(str(violation)) for violation in found.violations}:
                note(f"try {count}: still")
                return True
            shutil.rmtree(place, ignore_errors=True)
        note(f"try {count}: not any more")
        return False

    found = shortest(run.schedule, happens)
    file = folder / "schedule.json"
    file.write_text(found.to_json(), encoding="utf-8")
    return file


def _invariant(violation: str | Any) -> str:
    """Its short name: I1."""
    return str(violation).split()[0]
