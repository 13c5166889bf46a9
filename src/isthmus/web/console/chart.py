"""The data of a link's charts, and their description in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.model.text.wording import format_count
from isthmus.web.history import STEP_S, Sample


def series_of(samples: Sequence[Sample]) -> dict[str, list[Any]]:
    """Return the columns of the chart; a time without looks leaves a hole."""
    found: dict[str, list[Any]] = {"at": [], "lag": [], "lag_s": [], "rate": []}

    def add(at_s: float, *values: float | None) -> None:
        found["at"].append(round(at_s, 1))
        for name, value in zip(("lag", "lag_s", "rate"), values, strict=True):
            found[name].append(None if value is None else round(value, 1))

    before: Sample | None = None
    for each in samples:
        if before is not None and each.at_s - before.at_s > 3 * STEP_S:
            add(before.at_s + STEP_S, None, None, None)
        add(each.at_s, each.lag_records, each.lag_s, each.records_per_s)
        before = each
    return found


def told_of_lag(samples: Sequence[Sample]) -> str:
    """Describe the lag in words, for those who do not see the chart."""
    known = [each.lag_records for each in samples if each.lag_records is not None]
    if not known:
        return "The lag was not seen yet."
    return f"{format_count(known[-1], 'record')} to copy now, at most {max(known):,} and at least {min(known):,} seen."


def told_of_rate(samples: Sequence[Sample]) -> str:
    """Describe the throughput in words."""
    known = [each.records_per_s for each in samples if each.records_per_s is not None]
    if not known:
        return "Throughput was not seen yet: it takes two looks."
    return f"{known[-1]:,.0f} records/s now, at most {max(known):,.0f} seen."
