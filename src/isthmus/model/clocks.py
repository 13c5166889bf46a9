"""How far the times of records tell what a group has read, where clocks of producers differ. Pure.

A position goes through a tree as a time, and means: whatever is older was read. If a producer's clock is behind, or its
messages come late, a record that was not read yet may be older than that. Wherever a record is seen to be older than
one that lies before it, that says by how much; so much is taken off as well, if it is more than the margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.model.translation import timestamp_to_look_up

REMEMBERED_S: Final = 3_600.0
"""For so long it counts that a record was late."""
_NONE: Final = -1


@dataclass(slots=True)
class TimesSeen:
    """What was seen of the times of one partition's records, in any order."""

    _offset: int = _NONE
    _newest_ms: int = _NONE
    _late_ms: int = 0
    _until_s: float = 0.0

    def see(self, offset: int, time_ms: int, now_s: float) -> None:
        """A record at an offset has this time."""
        is_newer, is_behind = time_ms > self._newest_ms, offset > self._offset
        late_ms = abs(time_ms - self._newest_ms) if is_newer != is_behind else 0
        known_ms = self.late_ms(now_s)
        if late_ms and 2 * late_ms >= known_ms:
            # One that is about as late says that it still is so.
            self._late_ms, self._until_s = max(late_ms, known_ms), now_s + REMEMBERED_S
        if is_newer:
            self._offset, self._newest_ms = offset, time_ms

    def late_ms(self, now_s: float) -> int:
        """By how much a record was older than one that lies before it, at most, as far as was seen lately."""
        return self._late_ms if now_s < self._until_s else 0


def read_until(record_ms: int, *, now_ms: int, margin_ms: int, late_ms: int = 0, is_end: bool = False) -> int | None:
    """Up to which time all was read by a group: what is older is not read again on another cluster.

    `record_ms` is the time of the record at its position, or of the last one where that `is_end`. `None` where that
    lies in the future by more than the margin: when the record came is not known, and it may have been any time ago.
    At the end all is read that came until now.
    """
    at_ms = record_ms - (late_ms if late_ms > margin_ms else 0)
    if at_ms > now_ms + margin_ms and not is_end:
        return None
    # Who has a clock that is ahead does not make others skip what comes meanwhile.
    return timestamp_to_look_up(min(at_ms, now_ms), margin_ms)
