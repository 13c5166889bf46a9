"""What runs came to: a JSON line each, and a row each in the table of docs/reliability.md."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

from soak.run import Outcome

_ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = _ROOT / "soak" / "results.jsonl"
TABLE: Final = _ROOT / "docs" / "reliability.md"
_END: Final = "<!-- new rows go above this line -->"


def record(outcome: Outcome) -> None:
    """Append a run to the results, and to the table.

    :raises OSError: One of them cannot be written.
    :raises ValueError: The table has lost the line above which new rows go.
    """
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **outcome.as_dict()}
    with RESULTS.open("a", encoding="utf-8") as output:
        output.write(json.dumps(line, ensure_ascii=False) + "\n")
    text = TABLE.read_text(encoding="utf-8")
    if _END not in text:
        raise ValueError(f"{TABLE} has no line {_END!r}")
    TABLE.write_text(text.replace(_END, f"{row(outcome)}\n{_END}"), encoding="utf-8")


def row(outcome: Outcome) -> str:
    """A row of the table."""
    run = outcome.run
    faults = " ".join(f"{each}\u00d7{count}" for each, count in sorted(outcome.faults.items())) or "none"
    broken: dict[str, int] = {}
    for violation in outcome.violations:
        name = violation.invariant.split()[0]
        broken[name] = broken.get(name, 0) + 1
    violations = ", ".join(f"{name}\u00d7{count}" for name, count in sorted(broken.items())) or "none"
    conditions = run.conditions
    kind = [run.contender, *(["mapped"] if conditions.is_mapped else [])]
    kind += [] if conditions.naming == "identity" else [f"named by {conditions.naming}"]
    return f"| {run.seed} | {run.minutes:g} | {', '.join(kind)} | {faults} | {outcome.records:,} | {violations} |"
