"""When a run that ends with `caught-up` is over, and whether it has caught up."""

from __future__ import annotations

import enum
import time
from collections.abc import Collection, Mapping
from typing import Final

from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState

_WAITING_FOR_SOMEBODY: Final = (LaneState.NOT_AUTHORIZED, LaneState.BLOCKED)


class Arrival(enum.Enum):
    """How far a link is on its way to what its source held."""

    UNDER_WAY = enum.auto()
    CAUGHT_UP = enum.auto()
    """Everything is copied."""
    HELD_UP = enum.auto()
    """What is left waits for an operator: it is paused, refused or has stopped for good."""


class CatchUp:
    """The source's ends the lanes of a link are to reach.

    When everything the source held at the beginning is copied, its ends are read once more: what
    arrived meanwhile is to be copied too. A source that is written to all the time is caught up
    with in this sense, and one that is not has a lag of 0. What waits for somebody to act for `stuck_s` is waited for
    no longer, and so are records that wait for an open transaction. Those are passed over from the beginning where they
    do not count (`ignores_open`).
    """

    def __init__(self, source: Client, stuck_s: float) -> None:
        self._source = source
        self._stuck_s = stuck_s
        self._ends: dict[LaneKey, int] = {}
        self._was_asked_again = False
        self._waiting_since: dict[LaneKey, float] = {}
        self._held_at: dict[LaneKey, int] = {}

    async def look(
        self, lanes: Collection[Lane], reports: Mapping[LaneKey, LaneReport], *, ignores_open: bool = False
    ) -> Arrival:
        """How far these lanes are, those that cannot go on included. Ask again every moment.

        :raises ClusterError: The source does not answer.
        """
        for lane in lanes:
            report = reports.get(lane.key)
            is_waiting = report is not None and (
                report.state in _WAITING_FOR_SOMEBODY or self._note_held(report, self._ends.get(lane.key, -1))
            )
            self.note(lane.key, is_waiting=is_waiting)
        going = [lane for lane in lanes if not self._has_ended(lane.key, reports.get(lane.key))]
        new = [lane for lane in going if lane.key not in self._ends]
        if new:
            await self._read(new, ignores_open=ignores_open)
        if not all(self._has_arrived(lane, reports.get(lane.key)) for lane in going):
            return Arrival.UNDER_WAY
        if going and not self._was_asked_again:
            self._was_asked_again = await self._read(going, ignores_open=ignores_open)
            return Arrival.UNDER_WAY
        return Arrival.CAUGHT_UP if len(going) == len(lanes) else Arrival.HELD_UP

    def note(self, key: LaneKey, *, is_waiting: bool) -> None:
        """Whether something of a lane waits for somebody to act, as it is now."""
        if is_waiting:
            self._waiting_since.setdefault(key, time.monotonic())
        else:
            self._waiting_since.pop(key, None)

    def is_stuck(self, key: LaneKey) -> bool:
        """Whether something of a lane has waited for somebody to act for so long that nobody will now."""
        since = self._waiting_since.get(key)
        return since is not None and time.monotonic() - since > self._stuck_s

    def _note_held(self, report: LaneReport, end: int) -> bool:
        """Note where a lane waits for an open transaction to end; whether it has not moved since the look before."""
        if not report.source_end <= report.position < min(end, report.source_log_end):
            self._held_at.pop(report.key, None)
            return False
        before = self._held_at.get(report.key)
        self._held_at[report.key] = report.position
        return before == report.position

    def _has_arrived(self, lane: Lane, report: LaneReport | None) -> bool:
        end = self._ends.get(lane.key)
        if end is None or report is None:
            return False
        # Beyond what its source has a lane is in doubt: a moment later it goes on, or has stopped for good.
        return end <= report.position <= max(end, report.source_end)

    def _has_ended(self, key: LaneKey, report: LaneReport | None) -> bool:
        return (report is not None and report.state.is_terminal) or self.is_stuck(key)

    async def _read(self, lanes: Collection[Lane], *, ignores_open: bool) -> bool:
        """Read where the source ends in these lanes; whether it answered for all of them."""
        partitions = {(lane.source_topic, lane.partition): lane.key for lane in lanes}
        ranges = await log_ranges(self._source, partitions)
        self._ends.update(
            (partitions[key], log.stable_end if ignores_open else log.end) for key, log in ranges.values.items()
        )
        return not ranges.errors
