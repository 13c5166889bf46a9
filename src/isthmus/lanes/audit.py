"""Looks for records in mirrored logs that Isthmus did not write.

A lane that writes finds them itself, as every answer tells the offset. This finds them where a lane
is idle: its log ends behind what the lane knows of. What it finds is for the lane to confirm, which
looks at its log again; should the end be the lane's own work after all, it goes on.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.links.remedies import HeldOffsets, keep_or_delete
from isthmus.model.naming import TargetTopicPartition
from isthmus.model.problem import Problem


class LaneWord(NamedTuple):
    """What a lane reported last. Its task had heard the controller's `beat` by then; -1 where that is not known."""

    report: LaneReport
    beat: int


@dataclass(frozen=True, slots=True)
class Find:
    """Somebody else seems to have written to a target partition: a log that ends at `end` or behind it."""

    topic_id: uuid.UUID
    end: int
    problem: Problem


class _Suspicion(NamedTuple):
    """A log that ended at `end`, ahead of its lane. `beat` is the last that was made by the newest look.

    `is_confirmed`: the lane was still there when it had heard of a later beat than that of the look before.
    """

    end: int
    beat: int
    is_confirmed: bool = False


class Audit:
    """Holds the ends of target logs against what lanes report, again and again. `found` is what stands of it.

    One look proves nothing, as a report may be older than the log's end, however late it is heard: its
    task may have been frozen, or the ledger. So a lane is held against the end that was seen only if it
    reported when it had heard a beat that the controller made after that. And again after another look:
    from one to the next no lane waits for an answer to what it wrote, and still calls itself active.
    """

    def __init__(self, target: Cluster) -> None:
        self.found: dict[LaneKey, Find] = {}
        self._target = target
        self._suspected: dict[LaneKey, _Suspicion] = {}
        self._doubts: Counter[LaneKey] = Counter()

    def look(
        self,
        lanes: Iterable[Lane],
        logs: Mapping[TargetTopicPartition, LogRange],
        reported: Mapping[LaneKey, LaneWord],
        beat: int,
    ) -> None:
        """Hold what was reported by now against logs read before; `beat` is the last that was made by now."""
        suspected: dict[LaneKey, _Suspicion] = {}
        for lane in lanes:
            key, log, known = lane.key, logs.get((lane.target_topic, lane.partition)), reported.get(lane.key)
            if lane.is_mapped:
                # Others may write there.
                continue
            if log is None or known is None or known.report.state is not LaneState.ACTIVE or known.report.position < 0:
                continue
            before, position = self._suspected.get(key, _Suspicion(log.end, beat)), known.report.position
            end = min(before.end, log.end)
            if known.beat <= before.beat:
                suspected[key] = before
            elif position >= end:
                suspected[key] = _Suspicion(log.end, beat)
            elif not before.is_confirmed:
                suspected[key] = _Suspicion(end, beat, is_confirmed=True)
            elif key not in self.found:
                self._doubts[key] += 1
                self.found[key] = Find(lane.target_topic_id, end, _problem(key, self._target, position, log.end))
        self._suspected = {key: each for key, each in suspected.items() if reported[key].report.position < each.end}

    def review(self, lanes: Iterable[Lane], reported: Mapping[LaneKey, LaneWord]) -> None:
        """Take back what lanes have explained since: they are at the end that was seen, others may write
        there by now, or their topic is another."""
        running = {lane.key: lane for lane in lanes}
        for key, find in list(self.found.items()):
            lane, known = running.get(key), reported.get(key)
            is_sound = (
                known is not None and known.report.state is LaneState.ACTIVE and known.report.position >= find.end
            )
            if is_sound or lane is None or lane.is_mapped or lane.target_topic_id != find.topic_id:
                del self.found[key]

    def add_doubts(self, lane: Lane) -> Lane:
        """The lane as it is to run: another one after every find, so that it looks at its target's log itself."""
        return replace(lane, doubts=self._doubts[lane.key]) if lane.key in self._doubts else lane


def _problem(lane: LaneKey, target: Cluster, position: int, end: int) -> Problem:
    return Problem(
        f"another producer wrote to the target partition: Isthmus wrote up to offset {position}, "
        f"and the log ends at {end}",
        "Deny WRITE on the target topic to all but Isthmus. Kafka cannot take records back. "
        + keep_or_delete(lane.topic, target, [HeldOffsets(lane.partition, position, end)]),
    )
