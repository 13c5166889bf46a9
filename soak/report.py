"""What is said on stdout: of runs when they are over, of faults, of a schedule that was found."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from soak.faults.catalogue import FAULTS, IN_PART, NOT_DONE
from soak.run import Outcome
from soak.schedule import read_schedule

_console: Final = Console(soft_wrap=True, highlight=False)


def print_outcome(outcome: Outcome) -> None:
    """How a run ended; with violations also where everything is kept."""
    run = outcome.run
    faults = " ".join(f"{row}\u00d7{count}" for row, count in sorted(outcome.faults.items())) or "none"
    _say(
        f"seed {run.seed}, {run.contender}: {outcome.records:,} records written, {outcome.copied:,} at the target, "
        f"faults by row: {faults}; {outcome.seconds:.0f} s"
    )
    for note in outcome.notes:
        _say(f"  {note}")
    if not outcome.violations:
        _say("  everything held")
        return
    for violation in outcome.violations:
        _say(f"  {violation}", style="red")
    _say(f"  seed {run.seed}: {len(outcome.violations)} violations; history, logs and data: {run.folder}")
    _say(f"  the shortest schedule: python -m soak --shrink {run.history}")


def print_rows() -> None:
    """All faults by row, the rows of which there are none, and what is left of others."""
    for fault in sorted(FAULTS.values(), key=lambda each: (each.row, each.name)):
        _say(f"{fault.row:>3}  {fault.name:<36} {fault.describes}")
    for row, reason in sorted(NOT_DONE.items()):
        _say(f"{row:>3}  not done: {reason}")
    for row, rest in sorted(IN_PART.items()):
        _say(f"{row:>3}  in part: {rest}")


def print_shortest(file: Path) -> None:
    """A schedule that was found."""
    for number, bout in enumerate(read_schedule(file).bouts, start=1):
        for action in bout:
            _say(f"bout {number}: {action.fault} (row {action.row}) after {action.after_s} s, for {action.lasts_s} s")
    _say(f"do it again: python -m soak --schedule {file}")


def _say(text: str, *, style: str | None = None) -> None:
    _console.print(text, markup=False, style=style)
