"""The outcome of a run as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

import isthmus
from bench.figures import FIGURES, medians, ratio
from bench.session import Outcome
from isthmus.local.cluster import KAFKA_VERSION

OURS = "isthmus"
_COLUMNS_MAX: Final = 6
"""Where there are more figures, each has a row."""


def document(outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """Everything about a run, medians and every single figure."""
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "machine": _machine(),
        "versions": {
            "isthmus": isthmus.__version__,
            "pyspark": version("pyspark"),
            "python": platform.python_version(),
            "kafka": KAFKA_VERSION,
            "mirrormaker": "4.3.1",
        },
        "cases": [_case(outcome) for outcome in outcomes],
    }


def _machine() -> dict[str, Any]:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "cpu": names[0] if names else platform.machine(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
    }


def _case(outcome: Outcome) -> dict[str, Any]:
    middle = {name: medians(runs) for name, runs in outcome.runs.items()}
    ours = middle.get(OURS, {})
    ratios = {
        name: {figure: ratio(figure, ours, theirs) for figure in ours}
        for name, theirs in middle.items()
        if name != OURS and ours
    }
    return {
        "case": outcome.case.name,
        "description": outcome.case.description,
        "failure": outcome.failure,
        "load_average": {"min": min(outcome.loads, default=0.0), "max": max(outcome.loads, default=0.0)},
        "medians": middle,
        "isthmus_is_better_by": ratios,
        "runs": {name: [dict(run) for run in runs] for name, runs in outcome.runs.items()},
    }


def as_json(result: dict[str, Any]) -> str:
    return json.dumps(result, indent=2)


def print_table(result: dict[str, Any]) -> None:
    """Every case as a table: medians, and in brackets how many times better Isthmus is."""
    console = Console()
    for case in result["cases"]:
        load = case["load_average"]
        title = f"{case['case']}: {case['description']} (load {load['min']:.1f} to {load['max']:.1f})"
        if case["medians"]:
            console.print(_table(title, case))


def _table(title: str, case: dict[str, Any]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    names = list(next(iter(case["medians"].values())))
    cells = {
        contender: [
            _cell(name, figures[name], case["isthmus_is_better_by"].get(contender, {}).get(name)) for name in names
        ]
        for contender, figures in case["medians"].items()
    }
    if len(names) > _COLUMNS_MAX:
        table.add_column("")
        for contender in cells:
            table.add_column(contender, justify="right")
        for name, *row in zip(names, *cells.values(), strict=True):
            table.add_row(FIGURES[name].title, *row)
        return table
    table.add_column("contender", min_width=16, no_wrap=True)
    for name in names:
        table.add_column(FIGURES[name].title, justify="right")
    for contender, row in cells.items():
        table.add_row(contender, *row)
    return table


def _cell(name: str, value: float, better: float | None) -> str:
    shown = f"{value:,.{FIGURES[name].decimals}f}"
    return shown if better is None else f"{shown} ({better:.2f}x)"
