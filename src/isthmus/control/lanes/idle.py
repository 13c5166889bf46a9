"""Lanes that do not run now: nobody but the session looks where their source ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isthmus.cluster.offsets import log_ranges
from isthmus.model.lane import Lane, LaneKey
from isthmus.model.offsets import Cursor
from isthmus.wire.client import Client


class IdleLanes:
    """Where the sources of lanes that do not run end (`ends`), as they were last looked at."""

    def __init__(self, source: Client, target: Client) -> None:
        self.ends: Mapping[LaneKey, int] = {}
        self._source, self._target = source, target

    async def look(self, lanes: Collection[Lane], cursors: Mapping[LaneKey, Cursor]) -> bool:
        """Look at these lanes; whether the target has all that their sources hold. `cursors` are those of mapped lanes.

        :raises ClusterError: A cluster does not answer.
        """
        if not lanes:
            self.ends = {}
            return True
        at_target = {lane.key: (lane.target_topic, lane.partition) for lane in lanes}
        at_source = {lane.key: (lane.source_topic, lane.partition) for lane in lanes}
        targets = (await log_ranges(self._target, at_target.values())).values
        sources = (await log_ranges(self._source, at_source.values())).values
        self.ends = {key: sources[source].stable_end for key, source in at_source.items() if source in sources}
        copied = {key: targets[target].end for key, target in at_target.items() if target in targets}
        # Where the target of a mapped lane ends says nothing of what was copied.
        mapped = [lane.key for lane in lanes if lane.is_mapped]
        copied.update((key, cursors[key].source_offset if key in cursors else -1) for key in mapped)
        return all(key in self.ends and copied.get(key, -1) >= self.ends[key] for key in at_source)
