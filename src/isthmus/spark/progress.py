"""How far the lanes of a link are and how fast they move, gathered from running leases and from receipts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.latency import BUCKETS, merge

_MEASURED_FROM_S: Final = 2.0


class _Count(NamedTuple):
    records: int
    size_bytes: int


@dataclass(slots=True)
class _Lease:
    """What one running lease has reported. `begun_at` is when it reported first, in monotonic seconds."""

    begun_at: float
    counts: dict[LaneKey, _Count] = field(default_factory=dict)
    latency: Sequence[int] = ()


class Progress:
    """What a link has done since its controller began. Leases are told apart by slot and generation."""

    def __init__(self) -> None:
        self._reports: dict[LaneKey, LaneReport] = {}
        self._leases: dict[tuple[int, int], _Lease] = {}
        self._totals: dict[LaneKey, _Count] = {}
        self._loads: dict[LaneKey, float] = {}
        self._latency = [0] * BUCKETS
        self._told: list[LaneReport] | None = None

    def reports(self) -> list[LaneReport]:
        """The newest report of each lane, counting from the beginning of the controller."""
        # Asked far more often than a thousand idle lanes have anything to tell.
        if self._told is None:
            self._told = self._summed()
        return list(self._told)

    def _summed(self) -> list[LaneReport]:
        running: dict[LaneKey, _Count] = dict(self._totals)
        for lease in self._leases.values():
            for key, count in lease.counts.items():
                running[key] = _sum(running.get(key), count)
        return [
            replace(report, records=running[key].records, size_bytes=running[key].size_bytes)
            for key, report in self._reports.items()
        ]

    def report(self, key: LaneKey) -> LaneReport | None:
        """The newest report of one lane, as its lease made it."""
        return self._reports.get(key)

    @property
    def latency(self) -> list[int]:
        """The histogram of all leases together."""
        return merge([self._latency, *(lease.latency for lease in self._leases.values())])

    def load(self, key: LaneKey) -> float:
        """What the lane moved lately, in bytes/s."""
        return self._loads.get(key, 0.0)

    def take(
        self, slot: int, generation: int, reports: Iterable[LaneReport], latency: Sequence[int], now: float
    ) -> None:
        """What a running lease reports: its counts since it began."""
        self._told = None
        lease = self._leases.setdefault((slot, generation), _Lease(now))
        for report in reports:
            lease.counts[report.key] = _Count(report.records, report.size_bytes)
            self._show(report)
        lease.latency = latency
        self._measure(lease, now)

    def close(
        self, slot: int, generation: int, reports: Iterable[LaneReport], latency: Sequence[int], now: float
    ) -> None:
        """The lease has ended; without reports what it said last counts."""
        self._told = None
        lease = self._leases.pop((slot, generation), _Lease(now))
        for report in reports:
            lease.counts[report.key] = _Count(report.records, report.size_bytes)
            self._show(report)
        self._measure(lease, now)
        for key, count in lease.counts.items():
            self._totals[key] = _sum(self._totals.get(key), count)
        self._latency = merge([self._latency, latency or lease.latency])

    def forget(self, keys: Iterable[LaneKey]) -> None:
        """These lanes are no longer of interest; their counts remain in case they come back."""
        for key in keys:
            if self._reports.pop(key, None) is not None:
                self._told = None

    def _show(self, report: LaneReport) -> None:
        known = self._reports.get(report.key)
        if report.state is LaneState.STOPPED and known is not None:
            # Its lease ended, the lane goes on in the next.
            report = replace(report, state=known.state, problem=known.problem)
        self._reports[report.key] = report

    def _measure(self, lease: _Lease, now: float) -> None:
        elapsed_s = now - lease.begun_at
        if elapsed_s >= _MEASURED_FROM_S:
            for key, count in lease.counts.items():
                self._loads[key] = count.size_bytes / elapsed_s


def _sum(total: _Count | None, count: _Count) -> _Count:
    if total is None:
        return count
    return _Count(total.records + count.records, total.size_bytes + count.size_bytes)
