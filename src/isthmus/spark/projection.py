"""The target of a mapped lane seen from its source: in columns, by the ranges of its map.

Records of the target that are in no range belong to others. They are left out, or, where it matters what lies before or
behind a record, stand next to those they lie between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from isthmus.model.translation import MappedRange

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Projection:
    """Some ranges of a map, and what offsets of the target are by them at the source."""

    def __init__(self, ranges: Sequence[MappedRange], *, keeps_others: bool = False) -> None:
        self._keeps_others = keeps_others
        self._begins = np.array([one.target_begin for one in ranges], np.int64)
        self._ends = np.array([one.target_end for one in ranges], np.int64)
        self._shifts = np.array([one.shift for one in ranges], np.int64)

    def sources(self, offsets: Longs) -> tuple[Flags, Longs]:
        """Which of these offsets are in ranges, and what they are at the source; the others what lies before them."""
        if not len(self._begins):
            return np.zeros(len(offsets), np.bool_), offsets
        index = np.searchsorted(self._begins, offsets, side="right") - 1
        before = np.maximum(index, 0)
        is_inside = (index >= 0) & (offsets < self._ends[before])
        # Whatever lies behind a range stands at its end, and so before what comes there.
        place = np.clip(offsets, self._begins[0], self._ends[before]) - self._shifts[before]
        return is_inside, place

    def extent(self, begin: int, end: int) -> tuple[int, int] | None:
        """From where to where the target offsets `[begin, end)` reach at the source; `None` for nothing."""
        low, high = np.searchsorted(self._ends, begin, side="right"), np.searchsorted(self._begins, end)
        if low >= high:
            return None
        last = high - 1
        first = max(begin, int(self._begins[low])) - int(self._shifts[low])
        return first, min(end, int(self._ends[last])) - int(self._shifts[last])

    def shift(self, begin: int, end: int) -> int | None:
        """What the target offsets `[begin, end)` are above those of the source; `None` if they are not in one range."""
        index = int(np.searchsorted(self._begins, begin, side="right")) - 1
        return int(self._shifts[index]) if index >= 0 and end <= self._ends[index] else None

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the target with the offsets of the source."""
        is_inside, sources = self.sources(batch.column("offset").to_numpy())
        at = batch.schema.get_field_index("offset")
        moved = batch.set_column(at, batch.schema.field(at), pa.array(sources, pa.int64()))
        return moved if self._keeps_others or is_inside.all() else moved.filter(pa.array(is_inside))


class CommittedRows:
    """The source of a mapped lane: what is aborted is not copied."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without those of aborted transactions."""
        is_committed = ~batch.column("is_aborted").to_numpy(zero_copy_only=False)
        return batch if is_committed.all() else batch.filter(pa.array(is_committed))
