"""What comes out of one run of one contender in one case: named figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

Figures = Mapping[str, float]


class Figure(NamedTuple):
    """How a figure is shown, and whether more of it is better. `target` names the ratio to Isthmus's that matters."""

    title: str
    decimals: int
    more_is_better: bool


FIGURES: Final = {
    "records_per_s": Figure("records/s", 0, True),
    "cpu_s_per_million": Figure("CPU s per M records", 3, False),
    "worker_peak_mb": Figure("worker MiB", 0, False),
    "start_s": Figure("start s", 1, False),
    "start_cpu_s": Figure("start CPU s", 1, False),
    "p50_ms": Figure("p50 ms", 2, False),
    "p99_ms": Figure("p99 ms", 2, False),
    "max_ms": Figure("max ms", 1, False),
    "cpu_percent": Figure("CPU % of a core", 2, False),
}


def medians(runs: Sequence[Figures]) -> dict[str, float]:
    """The median of every figure over several runs."""
    return {name: median(run[name] for run in runs) for name in runs[0]} if runs else {}


def ratio(name: str, ours: Figures, theirs: Figures) -> float | None:
    """How many times better we are in a figure than somebody else, `None` where that cannot be said."""
    a, b = ours.get(name), theirs.get(name)
    if not a or not b:
        return None
    return a / b if FIGURES[name].more_is_better else b / a
