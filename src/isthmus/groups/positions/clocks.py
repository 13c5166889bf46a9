"""How far the times of records prove what a group has read, when clocks of producers differ. Pure.

A position goes through a tree as a time, and means: every older record was read. If a producer's clock is behind, or
its messages come late, a record that was not read yet may be older than that. A record that is older than one before it
shows by how much; that difference is subtracted as well, if it is more than the margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.model.translation import timestamp_to_look_up

REMEMBERED_S: Final = 3_600.0
"""How long a late record counts."""
_NONE: Final = -1


@dataclass(slots=True)
class TimesSeen:
    """The times of one partition's records that were seen, in any order."""

    _offset: int = _NONE
    _newest_ms: int = _NONE
    _late_ms: int = 0
    _until_s: float = 0.0

    def see(self, offset: int, time_ms: int, now_s: float) -> None:
        """Record the time of the record at an offset."""
        is_newer, is_behind = time_ms > self._newest_ms, offset > self._offset
        late_ms = abs(time_ms - self._newest_ms) if is_newer != is_behind else 0
        known_ms = self.late_ms(now_s)
        if late_ms and 2 * late_ms >= known_ms:
            # A record that is about as late renews the lateness.
            self._late_ms, self._until_s = max(late_ms, known_ms), now_s + REMEMBERED_S
        if is_newer:
            self._offset, self._newest_ms = offset, time_ms

    def late_ms(self, now_s: float) -> int:
        """Return by how much a recent record was at most older than one that lies before it."""
        return self._late_ms if now_s < self._until_s else 0


def read_until(record_ms: int, *, now_ms: int, margin_ms: int, late_ms: int = 0, is_end: bool = False) -> int | None:
    """Return the time up to which a group has read all: older records are not read again on another cluster.

    `record_ms` is the time of the record at its position, or of the last one if that `is_end`. `None` if that time is
    in the future by more than the margin: the arrival of the record is unknown, and may be any time ago. At the end all
    records until now are read.
    """
    at_ms = record_ms - (late_ms if late_ms > margin_ms else 0)
    if at_ms > now_ms + margin_ms and not is_end:
        return None
    # A producer whose clock is ahead does not make others skip records that come meanwhile.
    return timestamp_to_look_up(min(at_ms, now_ms), margin_ms)
