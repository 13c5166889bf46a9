"""The positions and rates of the lanes of a link, gathered from running leases and from receipts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.process.latency import BUCKETS, merge
from isthmus.model.process.receipt import LeaseTotals, Receipt

_MEASURED_FROM_S: Final = 2.0
_WINDOW_S: Final = 10.0
"""The rate of a lane is that of the last one or two of these."""


class Count(NamedTuple):
    """The records and bytes that were copied."""

    records: int
    size_bytes: int


class LanePlace(NamedTuple):
    """The last known position of a lane, and of the end of its source; -1 if unknown. Counts are those of
    `LaneReport`.
    """

    position: int
    source_end: int
    flags_replaced: int = 0
    skipped: int = 0
    filtered: int = 0


class _Since(NamedTuple):
    """What a lease had copied of a lane at a moment, in monotonic seconds."""

    at: float
    size_bytes: int


@dataclass(slots=True)
class _Lease:
    """The reports of one running lease. Rates are measured from `base` on; `next_base` was taken at `turned_at`."""

    turned_at: float
    counts: dict[LaneKey, Count] = field(default_factory=dict)
    latency: Sequence[int] = ()
    base: dict[LaneKey, _Since] = field(default_factory=dict)
    next_base: dict[LaneKey, _Since] = field(default_factory=dict)

    def measure(self, reports: Sequence[LaneReport], now: float) -> Iterator[tuple[LaneKey, float]]:
        """Return the recent rates in bytes/s of lanes that were watched for long enough: of these, and at the end of a
        window of all, as the rates of lanes that rest fall.
        """
        for report in reports:
            if report.state is LaneState.STOPPED:
                # It has left the lease, or will be measured in the next one.
                self.base.pop(report.key, None)
            else:
                self.base.setdefault(report.key, _Since(now, report.size_bytes))
        has_turned = now - self.turned_at >= _WINDOW_S
        if has_turned:
            self.base |= {key: since for key, since in self.next_base.items() if key in self.base}
            self.next_base = {key: _Since(now, self.counts[key].size_bytes) for key in self.base}
            self.turned_at = now
        for key in self.base if has_turned else [each.key for each in reports if each.key in self.base]:
            since = self.base[key]
            if now - since.at >= _MEASURED_FROM_S:
                yield key, (self.counts[key].size_bytes - since.size_bytes) / (now - since.at)


class RunProgress:
    """The progress of a link since its run began, over all sessions and leases: no count ever goes back.

    The leases of a session are identified by slot and generation; call `begin` for another session. `beats` are the
    newest heartbeats of the controller that tasks had read when they made the newest report of a lane, where known.
    `places` outlive sessions, and reports without a position. `leases` are the totals of all leases.
    """

    def __init__(self) -> None:
        self._reports: dict[LaneKey, LaneReport] = {}
        self._heard: dict[LaneKey, float] = {}
        self.beats: dict[LaneKey, int] = {}
        self.places: dict[LaneKey, LanePlace] = {}
        self.leases = LeaseTotals()
        self._forgotten: set[LaneKey] = set()
        self._leases: dict[tuple[int, int], _Lease] = {}
        self._totals: dict[LaneKey, Count] = {}
        self._loads: dict[LaneKey, float] = {}
        self._latency = [0] * BUCKETS
        self._merged: list[int] | None = None
        self._cached_reports: list[LaneReport] | None = None
        self._counts: dict[LaneKey, Count] | None = None

    def begin(self) -> None:
        """Begin another session: the state of its lanes is unknown, and the counts of earlier sessions are kept."""
        self._cached_reports = self._counts = self._merged = None
        for lease in self._leases.values():
            self._add(lease)
        self._leases.clear()
        self._reports.clear()
        self.beats.clear()

    def reports(self) -> list[LaneReport]:
        """Return the newest report of each lane, with counts since the beginning of the run."""
        # Called far more often than reports of idle lanes change.
        if self._cached_reports is None:
            counts = self.counts
            self._cached_reports = [
                replace(report, records=counts[key].records, size_bytes=counts[key].size_bytes)
                for key, report in self._reports.items()
            ]
        return list(self._cached_reports)

    @property
    def counts(self) -> Mapping[LaneKey, Count]:
        """The counts of all lanes, including former ones."""
        if self._counts is None:
            self._counts = dict(self._totals)
            for lease in self._leases.values():
                _accumulate(self._counts, lease.counts)
        return self._counts

    @property
    def records(self) -> int:
        """The number of copied records."""
        return sum(count.records for count in self.counts.values())

    @property
    def size_bytes(self) -> int:
        """The bytes of copied record batches."""
        return sum(count.size_bytes for count in self.counts.values())

    def report(self, key: LaneKey) -> LaneReport | None:
        """Return the newest report of one lane, as its lease made it."""
        return self._reports.get(key)

    def ages_s(self, now: float) -> dict[LaneKey, float]:
        """Return how long ago (s) each lane was last reported."""
        return {key: now - heard_at for key, heard_at in self._heard.items()}

    @property
    def latency(self) -> list[int]:
        """The histogram of all leases together."""
        # As with the reports: read far more often than it changes.
        if self._merged is None:
            self._merged = merge([self._latency, *(lease.latency for lease in self._leases.values())])
        return list(self._merged)

    def load(self, key: LaneKey) -> float:
        """Return the recent rate of a lane, in bytes/s."""
        return self._loads.get(key, 0.0)

    def take(
        self,
        slot: int,
        generation: int,
        reports: Iterable[LaneReport],
        latency: Sequence[int],
        now: float,
        *,
        beat: int = -1,
    ) -> None:
        """Take in reports of a running lease, with its counts since it began."""
        self._cached_reports = self._counts = self._merged = None
        lease = self._leases.setdefault((slot, generation), _Lease(now))
        told = list(reports)
        for report in told:
            lease.counts[report.key] = Count(report.records, report.size_bytes)
            self._heard[report.key] = now
            self._show(report, beat)
        lease.latency = latency
        self._loads.update(lease.measure(told, now))

    def close(
        self, slot: int, generation: int, reports: Iterable[LaneReport], latency: Sequence[int], now: float
    ) -> None:
        """Close a lease that has ended; without reports its last ones count."""
        self._cached_reports = self._counts = self._merged = None
        lease = self._leases.pop((slot, generation), _Lease(now))
        for report in reports:
            lease.counts[report.key] = Count(report.records, report.size_bytes)
            self._heard[report.key] = now
            self._show(report, -1)
        lease.latency = latency or lease.latency
        self._add(lease)

    def note_end(self, receipt: Receipt | None) -> None:
        """Count a lease that has ended, with or without a receipt."""
        self.leases = self.leases.add_lease(receipt)

    def _add(self, lease: _Lease) -> None:
        _accumulate(self._totals, lease.counts)
        self._latency = merge([self._latency, lease.latency])

    def forget(self, keys: Iterable[LaneKey]) -> None:
        """Forget the reports of lanes; their counts are kept."""
        for key in keys:
            self._forgotten.add(key)
            if self._reports.pop(key, None) is not None:
                self._cached_reports = None

    def _show(self, report: LaneReport, beat: int) -> None:
        # A report of a lane that its lease has given up may come after one of the next lease, and be older.
        self.beats[report.key] = -1 if report.state is LaneState.STOPPED else beat
        known, place = self._reports.get(report.key), self.places.get(report.key, LanePlace(-1, -1))
        position = report.position if report.position >= 0 else place.position
        self.places[report.key] = LanePlace(
            position,
            max(report.source_end, place.source_end),
            max(report.flags_replaced, place.flags_replaced),
            max(report.skipped, place.skipped),
            max(report.filtered, place.filtered),
        )
        if report.state is LaneState.STOPPED:
            if known is not None:
                # Its lease ended, and the lane goes on in the next one.
                report = replace(report, state=known.state, problem=known.problem)
            elif report.key in self._forgotten:
                return
            else:
                # The end of the lease is no problem of the lane, which had no report yet.
                report = replace(report, problem=None)
        self._forgotten.discard(report.key)
        self._reports[report.key] = report


def _accumulate(totals: dict[LaneKey, Count], counts: Mapping[LaneKey, Count]) -> None:
    for key, count in counts.items():
        total = totals.get(key, Count(0, 0))
        totals[key] = Count(total.records + count.records, total.size_bytes + count.size_bytes)
