"""The times of the records at positions of a cluster, each looked up once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.timestamps import record_timestamps
from isthmus.control.groups.translation import RANGES_S, TargetPosition, rounds
from isthmus.wire.client import Client

_KNOWN_MAX: Final = 100_000


class RecordTimes:
    """Times (ms) by partition and position."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[TargetPosition, int] = {}

    async def of(self, wanted: Collection[TargetPosition]) -> dict[TargetPosition, int]:
        """The time of the record at each position, or of the last one before it where it is the end; 0 where there is
        no record at all. Those of partitions that do not answer are left out.

        :raises ClusterError: The cluster as a whole did not answer, or a partition cannot be read.
        """
        found = {at: self._known[at] for at in wanted if at in self._known}
        for positions in rounds(set(wanted) - found.keys()):
            logs = (await log_ranges(self._client, positions, timeout_s=RANGES_S)).values
            stamps = await record_timestamps(self._client, positions, logs)
            for key, position in positions.items():
                if key in logs:
                    found[key, position] = stamps.get(key, 0)
                    # What stands at the end gets a record of its own later.
                    if key in stamps and position < logs[key].stable_end:
                        self._known[key, position] = stamps[key]
        if len(self._known) > _KNOWN_MAX:
            self._known = dict(found)
        return found
