"""Lanes that do not run now: nobody but the session looks where their source ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Lane, LaneKey
from isthmus.model.offsets import Cursor


class IdleLanes:
    """The source logs of lanes that do not run (`logs`), as they were last looked at."""

    def __init__(self, source: Client, target: Client) -> None:
        self.logs: Mapping[LaneKey, LogRange] = {}
        self._source, self._target = source, target

    async def look(
        self, lanes: Collection[Lane], cursors: Mapping[LaneKey, Cursor], *, ignores_open: bool = False
    ) -> bool:
        """Look at these lanes; whether the target has all that their sources hold, or all that is in no open
        transaction if the others do not count (`ignores_open`). `cursors` are those of mapped lanes.

        :raises ClusterError: A cluster does not answer.
        """
        if not lanes:
            self.logs = {}
            return True
        at_target = {lane.key: (lane.target_topic, lane.partition) for lane in lanes}
        at_source = {lane.key: (lane.source_topic, lane.partition) for lane in lanes}
        targets = (await log_ranges(self._target, at_target.values())).values
        sources = (await log_ranges(self._source, at_source.values())).values
        self.logs = {key: sources[source] for key, source in at_source.items() if source in sources}
        copied = {key: targets[target].end for key, target in at_target.items() if target in targets}
        # The end of the log does not show how far a mapped lane has copied.
        mapped = [lane.key for lane in lanes if lane.is_mapped]
        copied.update((key, cursors[key].source_offset if key in cursors else -1) for key in mapped)
        ends = {key: log.stable_end if ignores_open else log.end for key, log in self.logs.items()}
        return all(key in ends and copied.get(key, -1) >= ends[key] for key in at_source)
