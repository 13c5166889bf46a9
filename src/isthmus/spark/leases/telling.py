"""Reports of a lease about its lanes: all that it copied is counted, and lanes without a change cost nothing."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, LaneState, Milestone, milestone_of


class Telling:
    """One lease's reports: those that changed since they were written to the ledger, and now and then all.

    A lane that the lease has given up is reported once more, with its final counts and as stopped: its state is for
    its next lease to report.
    """

    def __init__(self) -> None:
        self._reported: dict[LaneKey, LaneReport] = {}
        self._parted: set[LaneKey] = set()

    def due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> list[LaneReport]:
        """Return the reports to write now, of all lanes the lease ever had; `lanes` are those it has."""
        return list(self._due(reports, lanes, is_full=is_full))

    def _due(self, reports: Iterable[LaneReport], lanes: Container[LaneKey], *, is_full: bool) -> Iterator[LaneReport]:
        for report in reports:
            reported = self._reported.get(report.key)
            if report.key in lanes:
                if is_full or report != reported:
                    yield report
            elif report.key in self._parted or report.records > (0 if reported is None else reported.records):
                yield _counts(report)

    def note_reported(self, reports: Iterable[LaneReport]) -> None:
        """Note that these reports are in the ledger."""
        found = {report.key: report for report in reports}
        self._reported.update(found)
        self._parted.difference_update(found)

    def forget_lanes(self, keys: Iterable[LaneKey]) -> None:
        """Note that the lease has given up these lanes. If they come back they are reported again in any state."""
        for key in keys:
            if key in self._reported:
                self._reported[key] = _counts(self._reported[key])
                self._parted.add(key)

    def last(self, reports: Iterable[LaneReport], lanes: Container[LaneKey]) -> list[LaneReport]:
        """Return the reports of the receipt, including those reported before: the ledger may not have them."""
        return [
            report if report.key in lanes else _counts(report)
            for report in reports
            if report.key in lanes or report.records
        ]

    def untold(self, last: Iterable[LaneReport], lanes: Container[LaneKey]) -> list[LaneReport]:
        """Return the reports of the receipt not written yet, of lanes that the lease has to its end: it may end before
        it has reported anything. The end of the lease is neither a state of a lane nor a problem.
        """
        return list(self._find_unreported(last, lanes))

    def _find_unreported(self, last: Iterable[LaneReport], lanes: Container[LaneKey]) -> Iterator[LaneReport]:
        for report in last:
            if report.key not in lanes or (report.position < 0 and not report.state.is_terminal):
                continue
            reported, standing = self._reported.get(report.key), report
            if report.state is LaneState.STOPPED:
                standing = (
                    _counts(report)
                    if reported is None
                    else replace(report, state=reported.state, problem=reported.problem)
                )
            if standing != reported:
                yield standing


class Milestones:
    """One lease's milestones: those of a new leader epoch, or of a lane that had none, are due at once, others now and
    then. A lane that the lease has given up keeps its own here until the next owner has come as far.
    """

    def __init__(self) -> None:
        self._of: dict[_Between, Milestone] = {}
        # How often any milestone moved, and how often into a new epoch: now, when last due, and when last reported.
        self._moves = self._epochs = 0
        self._due = self._reported = (0, 0)

    @property
    def furthest(self) -> tuple[Milestone, ...]:
        """The furthest milestone of each lane."""
        return tuple(self._of.values())

    def note_milestones(self, milestones: Iterable[Milestone]) -> None:
        """Take in milestones that lanes reached."""
        for each in milestones:
            between = each.key, each.source_topic_id, each.target_topic_id
            if self._is_further(between, each.source_epoch, each.position):
                self._put(between, each)

    def note_marks(self, lanes: Mapping[LaneKey, Lane], marks: Iterable[LaneMark]) -> None:
        """Take in the marks that lanes are at. Called for all lanes every second, and most of them rest."""
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
        """Return the milestones to write now, of all lanes: a document replaces the one before."""
        self._due = self._moves, self._epochs
        moves, epochs = self._reported
        return self.furthest if epochs != self._epochs or (is_full and moves != self._moves) else ()

    def note_reported(self, milestones: tuple[Milestone, ...]) -> None:
        """Note that these milestones are in the ledger, unless there are none."""
        if milestones:
            self._reported = self._due


_Between = tuple[LaneKey, uuid.UUID, uuid.UUID]
"""A lane between two topics, by their ids: a topic created again under the same name is another one."""


def _counts(report: LaneReport) -> LaneReport:
    return replace(report, state=LaneState.STOPPED, problem=None)
