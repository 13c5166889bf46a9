"""What a lease tells of its lanes: everything it copied is counted, and lanes with nothing to tell cost nothing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from isthmus.model.lane import LaneKey, LaneReport, LaneState


class Telling:
    """One lease's reports: those that changed since they were told, now and then all.

    A lane that the lease has given up is told for what it copied in the end, and for nothing else: how it stands is
    for its next lease to say.
    """

    def __init__(self) -> None:
        self._told: dict[LaneKey, LaneReport] = {}

    def due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> list[LaneReport]:
        """What is to be told now of all lanes the lease ever had; `lanes` are those it has."""
        return list(self._due(reports, lanes, is_full=is_full))

    def _due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> Iterator[LaneReport]:
        for report in reports:
            told = self._told.get(report.key)
            if report.key in lanes:
                if is_full or report != told:
                    yield report
            elif report.records > (0 if told is None else told.records):
                yield _counts(report)

    def told(self, reports: Iterable[LaneReport]) -> None:
        """These are told: they stand in the ledger."""
        self._told.update((report.key, report) for report in reports)

    def parted(self, keys: Iterable[LaneKey]) -> None:
        """The lease has given these up. Should they come back they are told anew, however they stand then."""
        for key in keys:
            if key in self._told:
                self._told[key] = _counts(self._told[key])

    def last(self, reports: Iterable[LaneReport], lanes: Container[LaneKey]) -> list[LaneReport]:
        """What the receipt says, whatever was told before: it may not have been heard."""
        return [
            report if report.key in lanes else _counts(report)
            for report in reports
            if report.key in lanes or report.records
        ]


def _counts(report: LaneReport) -> LaneReport:
    return replace(report, state=LaneState.STOPPED, problem=None)
