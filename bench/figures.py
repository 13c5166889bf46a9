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
    "links": Figure("links", 0, False),
    "all_copy_s": Figure("s until all links copy", 1, False),
    "copies_per_s": Figure("copies/s", 0, True),
    "python_mb": Figure("Python MiB", 0, False),
    "jvm_mb": Figure("JVM MiB", 0, False),
    "hops_mean": Figure("hops on average", 2, False),
    "hops_max": Figure("hops at most", 0, False),
    "far_copies": Figure("copies of a record into the other half", 2, False),
    "written_ratio": Figure("MB written for each MB produced", 2, False),
    "read_ratio": Figure("MB read for each MB produced", 2, False),
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
