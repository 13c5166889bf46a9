"""How far the lanes of a link are and how fast they move, gathered from running leases and from receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.latency import BUCKETS, merge
from isthmus.model.receipt import LeaseTotals, Receipt

_MEASURED_FROM_S: Final = 2.0


class Count(NamedTuple):
    """How much was copied."""

    records: int
    size_bytes: int


class LanePlace(NamedTuple):
    """Where a lane and the end of its source were last known to be; -1 if they never were. For `flags_replaced` see
    `LaneReport`.
    """

    position: int
    source_end: int
    flags_replaced: int = 0


@dataclass(slots=True)
class _Lease:
    """What one running lease has reported. `begun_at` is when it reported first, in monotonic seconds."""

    begun_at: float
    counts: dict[LaneKey, Count] = field(default_factory=dict)
    latency: Sequence[int] = ()


class RunProgress:
    """What a link has done since its run began, whichever sessions and leases did it: no count ever goes back.

    The leases of a session are told apart by slot and generation; `begin` when there is another session. `beats` are
    the newest of the controller that tasks had heard when they made the newest report of a lane, where that is known.
    `places` outlive reports that know none, and sessions. `leases` is what all of them were.
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
        self._told: list[LaneReport] | None = None
        self._counts: dict[LaneKey, Count] | None = None

    def begin(self) -> None:
        """Another session begins: how its lanes stand is not known, and what earlier ones copied counts."""
        self._told = self._counts = self._merged = None
        for lease in self._leases.values():
            self._add(lease)
        self._leases.clear()
        self._reports.clear()
        self.beats.clear()

    def reports(self) -> list[LaneReport]:
        """The newest report of each lane, counting from the beginning of the run."""
        # Asked far more often than a thousand idle lanes have anything to tell.
        if self._told is None:
            counts = self.counts
            self._told = [
                replace(report, records=counts[key].records, size_bytes=counts[key].size_bytes)
                for key, report in self._reports.items()
            ]
        return list(self._told)

    @property
    def counts(self) -> Mapping[LaneKey, Count]:
        """What was copied of each lane there ever was."""
        if self._counts is None:
            self._counts = dict(self._totals)
            for lease in self._leases.values():
                _accumulate(self._counts, lease.counts)
        return self._counts

    @property
    def records(self) -> int:
        """Records copied."""
        return sum(count.records for count in self.counts.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches copied."""
        return sum(count.size_bytes for count in self.counts.values())

    def report(self, key: LaneKey) -> LaneReport | None:
        """The newest report of one lane, as its lease made it."""
        return self._reports.get(key)

    def ages_s(self, now: float) -> dict[LaneKey, float]:
        """How long ago (s) each lane was heard last."""
        return {key: now - heard_at for key, heard_at in self._heard.items()}

    @property
    def latency(self) -> list[int]:
        """The histogram of all leases together."""
        # As with the reports: asked far more often than there is anything new.
        if self._merged is None:
            self._merged = merge([self._latency, *(lease.latency for lease in self._leases.values())])
        return list(self._merged)

    def load(self, key: LaneKey) -> float:
        """What the lane moved lately, in bytes/s."""
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
        """What a running lease reports: its counts since it began."""
        self._told = self._counts = self._merged = None
        lease = self._leases.setdefault((slot, generation), _Lease(now))
        for report in reports:
            lease.counts[report.key] = Count(report.records, report.size_bytes)
            self._heard[report.key] = now
            self._show(report, beat)
        lease.latency = latency
        self._measure(lease, now)

    def close(
        self, slot: int, generation: int, reports: Iterable[LaneReport], latency: Sequence[int], now: float
    ) -> None:
        """The lease has ended; without reports what it said last counts."""
        self._told = self._counts = self._merged = None
        lease = self._leases.pop((slot, generation), _Lease(now))
        for report in reports:
            lease.counts[report.key] = Count(report.records, report.size_bytes)
            self._heard[report.key] = now
            self._show(report, -1)
        self._measure(lease, now)
        lease.latency = latency or lease.latency
        self._add(lease)

    def ended(self, receipt: Receipt | None) -> None:
        """A lease has ended, with or without a receipt."""
        self.leases = self.leases.ended(receipt)

    def _add(self, lease: _Lease) -> None:
        _accumulate(self._totals, lease.counts)
        self._latency = merge([self._latency, lease.latency])

    def forget(self, keys: Iterable[LaneKey]) -> None:
        """These lanes are no longer of interest; what they copied counts all the same."""
        for key in keys:
            self._forgotten.add(key)
            if self._reports.pop(key, None) is not None:
                self._told = None

    def _show(self, report: LaneReport, beat: int) -> None:
        # What a lease says of a lane it has given up may come later than what the next one says, and be older.
        self.beats[report.key] = -1 if report.state is LaneState.STOPPED else beat
        known, place = self._reports.get(report.key), self.places.get(report.key, LanePlace(-1, -1))
        position = report.position if report.position >= 0 else place.position
        self.places[report.key] = LanePlace(
            position, max(report.source_end, place.source_end), max(report.flags_replaced, place.flags_replaced)
        )
        if report.state is LaneState.STOPPED:
            if known is not None:
                # Its lease ended, the lane goes on in the next.
                report = replace(report, state=known.state, problem=known.problem)
            elif report.key in self._forgotten:
                return
            else:
                # That it ended says nothing of what it had no time to say.
                report = replace(report, problem=None)
        self._forgotten.discard(report.key)
        self._reports[report.key] = report

    def _measure(self, lease: _Lease, now: float) -> None:
        elapsed_s = now - lease.begun_at
        if elapsed_s >= _MEASURED_FROM_S:
            for key, count in lease.counts.items():
                self._loads[key] = count.size_bytes / elapsed_s


def _accumulate(totals: dict[LaneKey, Count], counts: Mapping[LaneKey, Count]) -> None:
    for key, count in counts.items():
        total = totals.get(key, Count(0, 0))
        totals[key] = Count(total.records + count.records, total.size_bytes + count.size_bytes)
