"""The times of the records at positions of a cluster, each looked up once."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from isthmus.groups.positions.clocks import TimesSeen
from isthmus.groups.positions.translation import RANGES_S, rounds
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.timestamps import record_timestamps
from isthmus.model.naming import SourceTopicPartition

_KNOWN_MAX: Final = 100_000

SourcePosition = tuple[SourceTopicPartition, int]
"""A source partition and a position in it."""


class RecordTime(NamedTuple):
    """The time (ms) of the record at a position, or of the last one before it where that `is_end`. `late_ms` is by how
    much records of the partition are older than ones before them, as far as was seen.
    """

    ms: int
    late_ms: int
    is_end: bool


class RecordTimes:
    """Times by partition and position."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[SourcePosition, int] = {}
        self._seen: dict[SourceTopicPartition, TimesSeen] = {}

    async def of(self, wanted: Collection[SourcePosition]) -> dict[SourcePosition, RecordTime]:
        """Return the time of the record at each position, or of the last one before it where it is the end; 0 where
        there is no record at all. Positions of partitions that do not answer are left out.

        :raises ClusterError: The cluster as a whole did not answer, or a partition cannot be read.
        """
        found = {at: (self._known[at], False) for at in wanted if at in self._known}
        for positions in rounds(set(wanted) - found.keys()):
            logs = (await log_ranges(self._client, positions, timeout_s=RANGES_S)).values
            stamps = await record_timestamps(self._client, positions, logs, self._see)
            for key, position in positions.items():
                if key in logs:
                    is_end = position >= logs[key].stable_end
                    found[key, position] = (stamps.get(key, 0), is_end)
                    # The end gets a record of its own later.
                    if key in stamps and not is_end:
                        self._known[key, position] = stamps[key]
        if len(self._known) > _KNOWN_MAX:
            self._known = {at: ms for at, (ms, is_end) in found.items() if not is_end}
        return {at: RecordTime(ms, self.late_ms(at[0]), is_end) for at, (ms, is_end) in found.items()}

    def late_ms(self, key: SourceTopicPartition) -> int:
        """Return by how much records of a partition are older than ones before them, as far as was seen lately."""
        seen = self._seen.get(key)
        return 0 if seen is None else seen.late_ms(time.monotonic())

    def _see(self, key: SourceTopicPartition, offset: int, time_ms: int) -> None:
        self._seen.setdefault(key, TimesSeen()).see(offset, time_ms, time.monotonic())
