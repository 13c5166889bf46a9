"""Which offsets of a partition a verification compares, and the slices it reads them in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from isthmus.cluster.reading import OffsetRange
from isthmus.cluster.slices import Slice
from isthmus.model.log import LogRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRange:
    """One partition's comparison: the source's offsets `[offset_begin, offset_end)` with the target's.

    The target's log ends at `target_end`: before `offset_end` where it lags behind, after it where it holds more than
    the source. `lag` counts the source's offsets from `offset_end` on that are left out because lag is allowed.
    """

    source_topic: str
    target_topic: str
    partition: int
    offset_begin: int
    offset_end: int
    target_end: int
    lag: int = 0

    @property
    def source(self) -> OffsetRange:
        """What is compared of the source."""
        return OffsetRange(self.source_topic, self.partition, self.offset_begin, self.offset_end)

    @property
    def target(self) -> OffsetRange:
        """What is compared of the target."""
        return OffsetRange(self.target_topic, self.partition, self.offset_begin, self.target_end)


class ComparedSlice(NamedTuple):
    """A part of an extent: what to read on either side, possibly nothing, and about how many bytes the source's is."""

    extent: ComparedRange
    source: OffsetRange
    target: OffsetRange
    size_bytes: int

    @property
    def is_empty(self) -> bool:
        return self.source.is_empty and self.target.is_empty

    @property
    def lags(self) -> bool:
        """Whether the target ends within the slice, or before it: what the source has behind that is missing."""
        return self.extent.target_end < self.source.offset_end

    def from_offset(self, begin: int) -> ComparedSlice:
        """What is left of the slice from this offset on."""
        return self._replace(
            source=self.source._replace(offset_begin=max(self.source.offset_begin, begin)),
            target=self.target._replace(offset_begin=max(self.target.offset_begin, begin)),
        )

    def within(self, begin: int, end: int) -> ComparedSlice:
        """What the slice has of the offsets `[begin, end)`, its size being an estimate."""

        def clipped(span: OffsetRange) -> OffsetRange:
            first, last = max(span.offset_begin, begin), min(span.offset_end, end)
            return span._replace(offset_begin=first, offset_end=max(first, last))

        part = self._replace(source=clipped(self.source), target=clipped(self.target))
        offsets = max(self.source.offset_end - self.source.offset_begin, 1)
        share = part.source.offset_end - part.source.offset_begin
        return part._replace(size_bytes=self.size_bytes * share // offsets)

    def at_offset(self, offset: int) -> ComparedSlice:
        """This one offset at both sides."""
        return ComparedSlice(
            self.extent,
            self.source._replace(offset_begin=offset, offset_end=offset + 1),
            self.target._replace(offset_begin=offset, offset_end=offset + 1),
            0,
        )


def extent_of(
    names: tuple[str, str, int],
    source: LogRange | None,
    target: LogRange | None,
    *,
    since: int | None = None,
    until: int | None = None,
    allow_lag: bool = False,
) -> ComparedRange:
    """The extent of a partition: source topic, target topic, number; `None` stands for a log that does not exist.

    `since` and `until` are offsets. What retention or DeleteRecords has removed on either side is not compared.
    """
    begin = max(since or 0, *(log.start for log in (source, target) if log is not None))
    end = begin if source is None else source.stable_end
    target_end = begin if target is None else target.stable_end
    if until is not None:
        end = min(end, until)
        target_end = min(target_end, end)
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
    )


def compared_slices(extent: ComparedRange, parts: Sequence[Slice]) -> Iterator[ComparedSlice]:
    """The extent in the slices its source part was cut into, with a last one for what only the target has."""
    for part in parts:
        end = max(min(part.span.offset_end, extent.target_end), part.span.offset_begin)
        yield ComparedSlice(
            extent,
            part.span,
            OffsetRange(extent.target_topic, extent.partition, part.span.offset_begin, end),
            part.size_bytes,
        )
    if extent.target_end > extent.offset_end:
        nothing = extent.source._replace(offset_begin=extent.offset_end)
        yield ComparedSlice(extent, nothing, extent.target._replace(offset_begin=extent.offset_end), 0)
