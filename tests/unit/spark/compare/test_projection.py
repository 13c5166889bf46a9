"""A target seen by a map, held against looking up one offset after the other."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.log.spans import GAP_OFFSETS, spans_of
from isthmus.model.translation import MappedRange, OffsetMap
from isthmus.spark.compare.projection import CommittedRows, Projection

SOURCE: Final = 25
"""Above all source offsets of the examples."""

# For each source offset how many records of others come before its copy, None where it was not copied.
copies = st.lists(st.none() | st.integers(0, 3) | st.just(GAP_OFFSETS), max_size=SOURCE).map(
    lambda log: dict(_copied(log))
)


def _copied(log: list[int | None]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    end = 0
    for source, others in enumerate(log):
        if others is not None:
            found.append((source, end + others))
            end += others + 1
    return found


def ranges_of(where: dict[int, int]) -> tuple[MappedRange, ...]:
    """Where source offsets went, as ranges."""
    return OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items()).ranges


@given(copies)
def test_what_is_read(where: dict[int, int]) -> None:
    """All that was copied, once, in order; and much that belongs to others is passed over."""
    spans = list(spans_of(OffsetRange("orders", 0, 0, 0), ranges_of(where)))
    read = [offset for span in spans for offset in range(*span[2:])]
    assert read == sorted(set(read))
    assert set(where.values()) <= set(read)
    assert len(read) < len(where) + SOURCE * 4


@given(copies, st.lists(st.integers(0, 60), min_size=1))
def test_offsets_in_columns(where: dict[int, int], asked: list[int]) -> None:
    """Ours have the source's offsets, and others stand where they are before and behind the same of ours."""
    sources = {target: source for source, target in where.items()}
    is_inside, places = Projection(ranges_of(where)).sources(np.array(asked, np.int64))
    assert is_inside.tolist() == [offset in sources for offset in asked]
    for offset, place in zip(asked, places.tolist(), strict=True):
        if offset in sources:
            assert place == sources[offset]
        elif where:
            # As `comparison.differences_of_keys` asks: is it behind a record, is it before or at its place?
            assert all((place > source) == (offset > target) for source, target in where.items())


@given(copies, st.integers(0, 60), st.integers(1, 10))
def test_batches_among_ranges(where: dict[int, int], begin: int, length: int) -> None:
    """How far a stretch of the target reaches at the source, and whether all of it lies in one range."""
    projection, end = Projection(ranges_of(where)), begin + length
    inside = [source for source, target in where.items() if begin <= target < end]
    reach = projection.extent(begin, end)
    assert reach == ((min(inside), max(inside) + 1) if inside else None)
    shifts = {target - source for source, target in where.items() if begin <= target < end}
    is_whole = len(inside) == length and len(shifts) == 1
    assert projection.shift(begin, end) == (shifts.pop() if is_whole else None)


def test_rows() -> None:
    """Rows of others go, or stay where they belong; rows of aborted transactions go at the source."""
    offsets = pa.record_batch({"range": [1, 1, 1], "offset": [5, 8, 10], "is_aborted": [False, True, False]})
    ranges = [MappedRange(0, 3, 4), MappedRange(4, 10, 2)]
    assert Projection(ranges).rows(offsets).to_pydict() == {
        "range": [1, 1],
        "offset": [2, 4],
        "is_aborted": [False, False],
    }
    assert Projection(ranges, keeps_others=True).rows(offsets).column("offset").to_pylist() == [2, 4, 4]
    assert CommittedRows().rows(offsets).column("offset").to_pylist() == [5, 10]
    assert Projection([]).rows(offsets).num_rows == 0
