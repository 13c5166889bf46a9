"""What a lease tells of its lanes: everything it copied is counted, and lanes with nothing to tell cost nothing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from isthmus.model.lane import LaneKey, LaneReport, LaneState, Milestone, furthest


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


class Milestones:
    """One lease's milestones: those of a new leader epoch, or of a lane that had none, are due at once, others now and
    then. A lane that the lease has given up keeps its own here until the next owner has come as far.
    """

    def __init__(self) -> None:
        self.furthest: tuple[Milestone, ...] = ()
        self._told: tuple[Milestone, ...] = ()

    def reached(self, milestones: Iterable[Milestone]) -> None:
        """Lanes have been so far."""
        self.furthest = furthest([*self.furthest, *milestones])

    def due(self, *, is_full: bool) -> tuple[Milestone, ...]:
        """What is to be told now, of all lanes: a document takes the place of the one before."""
        if is_full:
            return () if self.furthest == self._told else self.furthest
        return () if _epochs(self.furthest) == _epochs(self._told) else self.furthest

    def told(self, milestones: tuple[Milestone, ...]) -> None:
        """These are told, unless there are none: they stand in the ledger."""
        self._told = milestones or self._told


def _epochs(milestones: Iterable[Milestone]) -> set[Milestone]:
    return {replace(each, position=0) for each in milestones}


def _counts(report: LaneReport) -> LaneReport:
    return replace(report, state=LaneState.STOPPED, problem=None)
