"""From a position at the source to one at the target, in three ways; each never lies above where it belongs.

    identity    the same offset: nothing is read again
    mapped      by an exact map of which source offsets went where: nothing is read again
    timestamp   by the timestamp of the record at the position less a margin: what is younger than that is read again

A position is the next offset to read. Translated, it is at most the target offset of the first record at or behind the
source's position, so that a consumer which goes on at the target misses nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self

from isthmus.errors import ConfigError

Way = Literal["identity", "mapped", "timestamp"]
DEFAULT_MARGIN_MS: Final = 60_000


class MappedRange(NamedTuple):
    """`length` source offsets from `source_begin` on that went to as many target offsets from `target_begin` on."""

    source_begin: int
    target_begin: int
    length: int

    @property
    def source_end(self) -> int:
        return self.source_begin + self.length

    @property
    def target_end(self) -> int:
        return self.target_begin + self.length

    @property
    def shift(self) -> int:
        """The difference between an offset of the target and that of the source."""
        return self.target_begin - self.source_begin


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The exact places of the records of one partition. Source offsets in no range were not copied.

    Ranges ascend on both sides and do not overlap.
    """

    ranges: tuple[MappedRange, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[MappedRange]) -> Self:
        """Return the map of these ranges, in any order and with repetitions; consecutive ones are merged.

        :raises ConfigError: They contradict each other, or the order of the target is another than that of the source.
        """
        joined: list[MappedRange] = []
        for one in sorted(ranges):
            last = joined[-1] if joined else None
            if one.length <= 0:
                continue
            if last is not None and one.source_begin <= last.source_end and one.shift == last.shift:
                length = max(last.source_end, one.source_end) - last.source_begin
                joined[-1] = last._replace(length=length)
            elif last is not None and (one.source_begin < last.source_end or one.target_begin < last.target_end):
                raise ConfigError(f"the ranges {last} and {one} contradict each other")
            else:
                joined.append(one)
        return cls(tuple(joined))

    def lookup(self, position: int) -> int | None:
        """Return the target's position for one of the source: that of the first copied record at or behind it.

        Behind the last record it is the end of the copy. `None` if nothing was copied yet.
        """
        if not self.ranges:
            return None
        index = bisect_right(self.ranges, position, key=lambda one: one.source_begin) - 1
        if index >= 0 and position < self.ranges[index].source_end:
            one = self.ranges[index]
            return one.target_begin + position - one.source_begin
        return self.ranges[index + 1].target_begin if index + 1 < len(self.ranges) else self.ranges[-1].target_end

    def within(self, begin: int, end: int) -> tuple[MappedRange, ...]:
        """Return the ranges for the source offsets `[begin, end)`."""
        if begin >= end:
            return ()
        first = max(bisect_right(self.ranges, begin, key=lambda one: one.source_begin) - 1, 0)
        found: list[MappedRange] = []
        for index in range(first, len(self.ranges)):
            one = self.ranges[index]
            if one.source_begin >= end:
                break
            low, high = max(one.source_begin, begin), min(one.source_end, end)
            if low < high:
                found.append(MappedRange(low, low + one.shift, high - low))
        return tuple(found)

    def first_source(self, target_offset: int) -> int | None:
        """Return the first source offset whose record went to this target offset or behind it;
        `None` if there is none.
        """
        index = bisect_right(self.ranges, target_offset, key=lambda one: one.target_begin) - 1
        if index >= 0 and target_offset < self.ranges[index].target_end:
            return target_offset - self.ranges[index].shift
        return self.ranges[index + 1].source_begin if index + 1 < len(self.ranges) else None


def timestamp_to_look_up(record_ms: int, margin_ms: int = DEFAULT_MARGIN_MS) -> int:
    """Return the timestamp to look up at the target: it answers with its first offset of this timestamp or a later one.

    `record_ms` is the timestamp of the record at the position, or of the last one before it if the position is the end.
    The timestamp of that record is not below the one looked up, so the answer is never behind it.
    """
    return max(record_ms - margin_ms, 0)
