"""Project the target of a mapped lane to offsets of its source: in columns, by the ranges of its map.

Records of the target that are in no range belong to others. They are left out, or, where the neighbours of a record
matter, get the offsets next to those they are between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from isthmus.model.translation import MappedRange

_target_begin, _target_end = attrgetter("target_begin"), attrgetter("target_end")

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Projection:
    """Ranges of a map, which project offsets of the target to the source."""

    def __init__(self, ranges: Sequence[MappedRange], *, keeps_others: bool = False) -> None:
        self._keeps_others = keeps_others
        self._ranges = ranges
        self._begins = np.array([one.target_begin for one in ranges], np.int64)
        self._ends = np.array([one.target_end for one in ranges], np.int64)
        self._shifts = np.array([one.shift for one in ranges], np.int64)

    def sources(self, offsets: Longs) -> tuple[Flags, Longs]:
        """Return which of these offsets are in ranges, and their source offsets; others get the one before them."""
        if not len(self._begins):
            return np.zeros(len(offsets), np.bool_), offsets
        index = np.searchsorted(self._begins, offsets, side="right") - 1
        before = np.maximum(index, 0)
        is_inside = (index >= 0) & (offsets < self._ends[before])
        # An offset behind a range gets the end of the range, and so comes before the next one.
        place = np.clip(offsets, self._begins[0], self._ends[before]) - self._shifts[before]
        return is_inside, place

    def extent(self, begin: int, end: int) -> tuple[int, int] | None:
        """Return the range at the source of the target offsets `[begin, end)`; `None` if it is empty."""
        # One by one, bisecting is faster than columns.
        low = bisect_right(self._ranges, begin, key=_target_end)
        high = bisect_left(self._ranges, end, lo=low, key=_target_begin)
        if low == high:
            return None
        first, last = self._ranges[low], self._ranges[high - 1]
        return max(begin, first.target_begin) - first.shift, min(end, last.target_end) - last.shift

    def shift(self, begin: int, end: int) -> int | None:
        """Return the shift of the target offsets `[begin, end)` to the source; `None` if they are not in one range."""
        index = bisect_right(self._ranges, begin, key=_target_begin) - 1
        return self._ranges[index].shift if index >= 0 and end <= self._ranges[index].target_end else None

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the target with the offsets of the source."""
        is_inside, sources = self.sources(batch.column("offset").to_numpy())
        at = batch.schema.get_field_index("offset")
        moved = batch.set_column(at, batch.schema.field(at), pa.array(sources, pa.int64()))
        return moved if self._keeps_others or is_inside.all() else moved.filter(pa.array(is_inside))


class CommittedRows:
    """The source of a mapped lane, without aborted records, which are not copied."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without those of aborted transactions."""
        is_committed = ~batch.column("is_aborted").to_numpy(zero_copy_only=False)
        return batch if is_committed.all() else batch.filter(pa.array(is_committed))
