"""What is said of a run when it is over."""

from __future__ import annotations

from rich.console import Console

from soak.session import Outcome

_console = Console(soft_wrap=True, highlight=False)


def print_outcome(outcome: Outcome) -> None:
    """A few lines on stdout; with violations also where everything is kept."""
    run = outcome.run
    faults = " ".join(f"{row}x{count}" for row, count in sorted(outcome.faults.items())) or "none"
    _console.print(
        f"seed {run.seed}, {run.contender}: {outcome.records:,} records written, {outcome.copied:,} at the target, "
        f"faults by row: {faults}; {outcome.seconds:.0f} s"
    )
    for note in outcome.notes:
        _console.print(f"  {note}", markup=False)
    if not outcome.violations:
        _console.print("  everything held")
        return
    for violation in outcome.violations:
        _console.print(f"  {violation}", markup=False, style="red")
    _console.print(
        f"  seed {run.seed} violates {len(outcome.violations)}; history and logs: {run.folder}", markup=False
    )
