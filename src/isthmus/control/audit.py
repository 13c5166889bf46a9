"""Looks for records in mirrored logs that Isthmus did not write.

A lane that writes finds them itself, as every answer tells the offset. This finds them where a lane
is idle.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.cluster.offsets import LogRange
from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneKey, LaneReport, LaneState, Problem
from isthmus.model.remedies import Extent, keep_or_delete


class Audit:
    """Holds the ends of target logs against what lanes report, again and again.

    One look proves nothing, as a lane's report may be older than the log's end. Two do, when the
    lane has since reported and still stands before the end that was seen first.
    """

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._suspected: dict[LaneKey, int] = {}

    def look(
        self, target_ranges: Mapping[tuple[str, int], LogRange], reports: Mapping[LaneKey, LaneReport]
    ) -> dict[LaneKey, Problem]:
        """The partitions somebody else has written to. Call it when every lane has reported anew."""
        found: dict[LaneKey, Problem] = {}
        suspected: dict[LaneKey, int] = {}
        for key, log in target_ranges.items():
            lane = LaneKey(*key)
            report = reports.get(lane)
            if report is None or report.state is not LaneState.ACTIVE or report.position < 0:
                continue
            if log.end > report.position:
                end = min(self._suspected.get(lane, log.end), log.end)
                suspected[lane] = end
                if lane in self._suspected and report.position < end:
                    found[lane] = _problem(lane, self._target, report.position, log.end)
        self._suspected = suspected
        return found


def _problem(lane: LaneKey, target: Cluster, position: int, end: int) -> Problem:
    return Problem(
        f"somebody else wrote to the target partition: Isthmus wrote up to offset {position}, "
        f"and the log ends at {end}",
        "Deny WRITE on the target topic to all but Isthmus. Kafka cannot take records back. "
        + keep_or_delete(lane.topic, target, [Extent(lane.partition, position, end)]),
    )
