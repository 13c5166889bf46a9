"""What a run is to do, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isthmus.model.text.plain import plain
from soak.conditions import Conditions
from soak.judge.evidence import Violation
from soak.schedule import Schedule

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be done, in a folder of the run's own.

    When the minutes are over no bout begins any more, unless the schedule is to be done as a whole.
    """

    seed: int
    minutes: float
    contender: str
    schedule: Schedule
    conditions: Conditions
    folder: Path
    is_whole: bool = False

    @property
    def history(self) -> Path:
        return self.folder / "history.jsonl"

    def as_dict(self) -> dict[str, Any]:
        """What the first line of its history holds: enough to do it again."""
        return {
            "seed": self.seed,
            "minutes": self.minutes,
            "contender": self.contender,
            "conditions": plain(self.conditions),
            "schedule": self.schedule.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. `faults` counts by row what was done, `records` what the source has acknowledged."""

    run: Run
    records: int
    copied: int
    faults: dict[int, int]
    violations: tuple[Violation, ...]
    seconds: float
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """One line of the results."""
        return {
            "seed": self.run.seed,
            "minutes": self.run.minutes,
            "contender": self.run.contender,
            "faults": {str(row): count for row, count in sorted(self.faults.items())},
            "records": self.records,
            "copied": self.copied,
            "seconds": round(self.seconds),
            "conditions": plain(self.run.conditions),
            "violations": [str(violation) for violation in self.violations],
            "notes": list(self.notes),
        }
