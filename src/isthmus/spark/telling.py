"""What a lease tells of its lanes: everything it copied is counted, and lanes with nothing to tell cost nothing."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, LaneState, Milestone, milestone_of


class Telling:
    """One lease's reports: those that changed since they were told, now and then all.

    A lane that the lease has given up is told once more, for what it copied in the end, and that the lease hears its
    source no more: how it stands is for its next lease to say.
    """

    def __init__(self) -> None:
        self._told: dict[LaneKey, LaneReport] = {}
        self._parted: set[LaneKey] = set()

    def due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> list[LaneReport]:
        """What is to be told now of all lanes the lease ever had; `lanes` are those it has."""
        return list(self._due(reports, lanes, is_full=is_full))

    def _due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> Iterator[LaneReport]:
        for report in reports:
            told = self._told.get(report.key)
            if report.key in lanes:
                if is_full or report != told:
                    yield report
            elif report.key in self._parted or report.records > (0 if told is None else told.records):
                yield _counts(report)

    def told(self, reports: Iterable[LaneReport]) -> None:
        """These are told: they stand in the ledger."""
        found = {report.key: report for report in reports}
        self._told.update(found)
        self._parted.difference_update(found)

    def parted(self, keys: Iterable[LaneKey]) -> None:
        """The lease has given these up. Should they come back they are told anew, however they stand then."""
        for key in keys:
            if key in self._told:
                self._told[key] = _counts(self._told[key])
                self._parted.add(key)

    def last(self, reports: Iterable[LaneReport], lanes: Container[LaneKey]) -> list[LaneReport]:
        """What the receipt says, whatever was told before: it may not have been heard."""
        return [
            report if report.key in lanes else _counts(report)
            for report in reports
            if report.key in lanes or report.records
        ]

    def untold(self, last: Iterable[LaneReport], lanes: Container[LaneKey]) -> list[LaneReport]:
        """What of the receipt was not told yet, of the lanes that the lease has to its end: it may end before it has
        told anything. That it ended is neither a state of theirs nor a problem.
        """
        return list(self._untold(last, lanes))

    def _untold(self, last: Iterable[LaneReport], lanes: Container[LaneKey]) -> Iterator[LaneReport]:
        for report in last:
            if report.key not in lanes or (report.position < 0 and not report.state.is_terminal):
                continue
            told, standing = self._told.get(report.key), report
            if report.state is LaneState.STOPPED:
                standing = _counts(report) if told is None else replace(report, state=told.state, problem=told.problem)
            if standing != told:
                yield standing


class Milestones:
    """One lease's milestones: those of a new leader epoch, or of a lane that had none, are due at once, others now and
    then. A lane that the lease has given up keeps its own here until the next owner has come as far.
    """

    def __init__(self) -> None:
        self._of: dict[_Between, Milestone] = {}
        # How often any moved, and how often into a new epoch: as of now, as was last due, and as was told.
        self._moves = self._epochs = 0
        self._due = self._told = (0, 0)

    @property
    def furthest(self) -> tuple[Milestone, ...]:
        """How far each lane has been."""
        return tuple(self._of.values())

    def reached(self, milestones: Iterable[Milestone]) -> None:
        """Lanes have been so far."""
        for each in milestones:
            between = each.key, each.source_topic_id, each.target_topic_id
            if self._is_further(between, each.source_epoch, each.position):
                self._put(between, each)

    def passed(self, lanes: Mapping[LaneKey, Lane], marks: Iterable[LaneMark]) -> None:
        """Lanes are at these marks. It is asked of all lanes every second, and most of them rest."""
        for mark in marks:
            lane = lanes[mark.key]
            between = mark.key, lane.source_topic_id, lane.target_topic_id
            if self._is_further(between, mark.source_epoch, mark.position):
                self._put(between, milestone_of(lane, mark))

    def _is_further(self, between: _Between, epoch: int, position: int) -> bool:
        known = self._of.get(between)
        return known is None or (epoch, position) > (known.source_epoch, known.position)

    def _put(self, between: _Between, milestone: Milestone) -> None:
        known = self._of.get(between)
        self._of[between] = milestone
        self._moves += 1
        self._epochs += known is None or milestone.source_epoch != known.source_epoch

    def due(self, *, is_full: bool) -> tuple[Milestone, ...]:
        """What is to be told now, of all lanes: a document takes the place of the one before."""
        self._due = self._moves, self._epochs
        moves, epochs = self._told
        return self.furthest if epochs != self._epochs or (is_full and moves != self._moves) else ()

    def told(self, milestones: tuple[Milestone, ...]) -> None:
        """These are told, unless there are none: they stand in the ledger."""
        if milestones:
            self._told = self._due


_Between = tuple[LaneKey, uuid.UUID, uuid.UUID]
"""A lane between two topics: others of their names are others."""


def _counts(report: LaneReport) -> LaneReport:
    return replace(report, state=LaneState.STOPPED, problem=None)
