"""Chooses the parts of a log to read when only some ranges matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.translation import MappedRange

GAP_OFFSETS: Final = 4096
"""If so many foreign offsets lie between two ranges, reading skips them with a new request."""


def spans_of(whole: OffsetRange, ranges: Sequence[MappedRange]) -> Iterator[OffsetRange]:
    """Yield the spans to read of the target for these ranges: all of them, with small gaps between."""
    begin = end = -1
    for one in ranges:
        if begin >= 0 and one.target_begin - end >= GAP_OFFSETS:
            yield whole._replace(offset_begin=begin, offset_end=end)
            begin = -1
        begin, end = (one.target_begin if begin < 0 else begin), one.target_end
    if begin >= 0:
        yield whole._replace(offset_begin=begin, offset_end=end)
