"""The offsets of a partition that a verification compares, and the slices that it reads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.log.slices import Slice
from isthmus.ledger.maps import LaneMap
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.translation import MappedRange, OffsetMap


class TransformSpan(NamedTuple):
    """The source's records from `offset_begin` on, which the transform of this id changes; "" for none."""

    offset_begin: int
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRange:
    """One partition's comparison: the source's offsets `[offset_begin, offset_end)` with the target's.

    The target's log ends at `target_end`: before `offset_end` where it lags behind, after it where it holds more than
    the source. `lag` counts the source's offsets from `offset_end` on that are left out because lag is allowed.
    `waiting` counts those at the end that are in no comparison because they wait for an open transaction.

    With the `lane` of a mapped partition all of these are the source's offsets: the target is what its map says of it,
    and `foreign` counts the target's offsets that are in no range of it. `transforms` are those that its records went
    through, in their order, if they were ever changed.
    """

    source_topic: SourceTopic
    target_topic: TargetTopic
    partition: int
    offset_begin: int
    offset_end: int
    target_end: int
    lag: int = 0
    waiting: int = 0
    foreign: int = 0
    # Two maps of one partition are of one lane; and comparing them costs as much as they are long.
    lane: LaneMap | None = field(default=None, compare=False, repr=False)
    transforms: tuple[TransformSpan, ...] = field(default=(), compare=False)

    @property
    def source(self) -> OffsetRange:
        """The compared range of the source."""
        return OffsetRange(self.source_topic, self.partition, self.offset_begin, self.offset_end)

    @property
    def target(self) -> OffsetRange:
        """The compared range of the target."""
        return self.at_target(self.ranges(self.offset_begin, self.target_end), self.offset_begin, self.target_end)

    def ranges(self, begin: int, end: int) -> tuple[MappedRange, ...] | None:
        """Return the ranges of the map for the source's offsets `[begin, end)`; `None` where offsets are the same."""
        return None if self.lane is None else self.lane.offsets.within(begin, end)

    def at_target(self, ranges: tuple[MappedRange, ...] | None, begin: int, end: int) -> OffsetRange:
        """Return the range at the target that covers `ranges`; without a map, the offsets `[begin, end)` themselves."""
        if ranges is not None:
            begin, end = (ranges[0].target_begin, ranges[-1].target_end) if ranges else (0, 0)
        return OffsetRange(self.target_topic, self.partition, begin, end)


class ComparedSlice(NamedTuple):
    """A part of an extent: what to read on either side, possibly nothing, and about how many bytes the source's is.

    Of a mapped partition only the target's records in `ranges` count; they were made by `transform` ("" for none).
    """

    extent: ComparedRange
    source: OffsetRange
    target: OffsetRange
    size_bytes: int
    ranges: tuple[MappedRange, ...] | None = None
    transform: str = ""

    @property
    def is_empty(self) -> bool:
        return self.source.is_empty and self.target.is_empty

    @property
    def lags(self) -> bool:
        """Whether the target ends within the slice, or before it: later records of the source are missing."""
        return self.extent.target_end < self.source.offset_end

    @property
    def seen(self) -> OffsetRange:
        """The range of the target, in offsets of the source."""
        if not self.ranges:
            return self.target
        return self.target._replace(offset_begin=self.ranges[0].source_begin, offset_end=self.ranges[-1].source_end)

    def from_offset(self, begin: int) -> ComparedSlice:
        """Return the rest of the slice from this offset on."""
        source = self.source._replace(offset_begin=max(self.source.offset_begin, begin))
        if self.ranges is not None:
            return self._map_slice(source, begin, max(begin, self.seen.offset_end))
        return self._replace(
            source=source, target=self.target._replace(offset_begin=max(self.target.offset_begin, begin))
        )

    def within(self, begin: int, end: int) -> ComparedSlice:
        """Return the part of the slice in the offsets `[begin, end)`; its size is an estimate."""

        def cut(span: OffsetRange) -> OffsetRange:
            first, last = max(span.offset_begin, begin), min(span.offset_end, end)
            return span._replace(offset_begin=first, offset_end=max(first, last))

        source = cut(self.source)
        part = self._map_slice(source, begin, end) if self.ranges is not None else None
        part = part or self._replace(source=source, target=cut(self.target))
        offsets = max(self.source.offset_end - self.source.offset_begin, 1)
        share = part.source.offset_end - part.source.offset_begin
        return part._replace(size_bytes=self.size_bytes * share // offsets)

    def at_offset(self, offset: int) -> ComparedSlice:
        """Return a slice of this one offset on both sides."""
        source = self.source._replace(offset_begin=offset, offset_end=offset + 1)
        if self.ranges is not None:
            return self._map_slice(source, offset, offset + 1)._replace(size_bytes=0)
        target = self.target._replace(offset_begin=offset, offset_end=offset + 1)
        return ComparedSlice(self.extent, source, target, 0)

    def _map_slice(self, source: OffsetRange, begin: int, end: int) -> ComparedSlice:
        ranges = OffsetMap(self.ranges or ()).within(begin, end)
        return self._replace(source=source, target=self.extent.at_target(ranges, begin, end), ranges=ranges)


def extent_of(
    names: tuple[SourceTopic, TargetTopic, int],
    source: LogRange | None,
    target: LogRange | None,
    *,
    since: int | None = None,
    until: int | None = None,
    allow_lag: bool = False,
    lane: LaneMap | None = None,
) -> ComparedRange:
    """Return the extent of a partition: source topic, target topic, number; `None` is a log that does not exist.

    `since` and `until` are offsets. Records that retention or DeleteRecords has removed on either side are not
    compared. With a `lane`, the target's log is that of `LaneMap.seen_by_source`.
    """
    begin = max(since or 0, *(log.start for log in (source, target) if log is not None))
    end = begin if source is None else source.stable_end
    target_end = begin if target is None else target.stable_end
    if until is not None:
        end = min(end, until)
        target_end = min(target_end, end)
    waiting = 0
    if source is not None and not allow_lag:
        last = source.end if until is None else min(source.end, until)
        waiting = max(last - max(source.stable_end, since or 0), 0)
    lag = max(end - max(target_end, begin), 0) if allow_lag else 0
    end -= lag
    begin = min(begin, end)
    return ComparedRange(
        source_topic=names[0],
        target_topic=names[1],
        partition=names[2],
        offset_begin=begin,
        offset_end=end,
        target_end=max(target_end, begin),
        lag=lag,
        waiting=waiting,
        lane=lane,
    )


def compared_slices(extent: ComparedRange, parts: Sequence[Slice]) -> Iterator[ComparedSlice]:
    """Yield the extent in the slices its source part was cut into, and a last one for records only at the target."""
    for part in parts:
        begin = part.span.offset_begin
        end = max(min(part.span.offset_end, extent.target_end), begin)
        ranges = extent.ranges(begin, end)
        yield ComparedSlice(extent, part.span, extent.at_target(ranges, begin, end), part.size_bytes, ranges)
    if extent.target_end > extent.offset_end:
        nothing = extent.source._replace(offset_begin=extent.offset_end)
        ranges = extent.ranges(extent.offset_end, extent.target_end)
        target = extent.at_target(ranges, extent.offset_end, extent.target_end)
        yield ComparedSlice(extent, nothing, target, 0, ranges)
