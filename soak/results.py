"""What runs came to: a JSON line each, and a row each in the table of docs/reliability.md."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from soak.judge.evidence import Violation
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
    append(outcome.as_dict(), row(outcome), results=RESULTS, above=_END)


def append(told: Mapping[str, Any], new_row: str, *, results: Path, above: str) -> None:
    """Append what is told of a run to a file of results, with the time, and a row to the table that ends `above` it.

    :raises OSError: One of them cannot be written.
    :raises ValueError: The page has lost the line `above` which new rows go.
    """
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **told}
    with results.open("a", encoding="utf-8") as output:
        output.write(json.dumps(line, ensure_ascii=False) + "\n")
    text = TABLE.read_text(encoding="utf-8")
    if above not in text:
        raise ValueError(f"{TABLE} has no line {above!r}")
    TABLE.write_text(text.replace(above, f"{new_row}\n{above}"), encoding="utf-8")


def row(outcome: Outcome) -> str:
    """A row of the table."""
    run = outcome.run
    faults = " ".join(f"{each}\u00d7{count}" for each, count in sorted(outcome.faults.items())) or "none"
    conditions = run.conditions
    kind = [run.contender, *(["mapped"] if conditions.is_mapped else [])]
    kind += [] if conditions.naming == "identity" else [f"named by {conditions.naming}"]
    violations = violations_in_words(outcome.violations)
    return f"| {run.seed} | {run.minutes:g} | {', '.join(kind)} | {faults} | {outcome.records:,} | {violations} |"


def violations_in_words(violations: Iterable[Violation]) -> str:
    """How often each law was broken."""
    broken = Counter(each.invariant.split()[0] for each in violations)
    return ", ".join(f"{name}\u00d7{count}" for name, count in sorted(broken.items())) or "none"
