"""Which offsets are compared."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.log.slices import Slice
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.compare.links.extent import ComparedRange, compared_slices, extent_of

NAMES = (SourceTopic("orders"), TargetTopic("copy"), 3)
offsets = st.integers(0, 20)


def log(start: int, end: int) -> LogRange:
    return LogRange(start, end, end)


logs = st.tuples(offsets, offsets).map(lambda ends: log(min(ends), max(ends)))


def numbers(extent: ComparedRange) -> tuple[int, int, int, int]:
    return extent.offset_begin, extent.offset_end, extent.target_end, extent.lag


def test_equal_logs() -> None:
    """Everything both logs hold is compared."""
    assert numbers(extent_of(NAMES, log(0, 10), log(0, 10))) == (0, 10, 10, 0)


def test_retention_at_either_side() -> None:
    """What one side no longer holds is not compared."""
    assert numbers(extent_of(NAMES, log(4, 10), log(0, 10))) == (4, 10, 10, 0)
    assert numbers(extent_of(NAMES, log(0, 10), log(6, 10))) == (6, 10, 10, 0)


def test_lagging_target() -> None:
    """The target's end is where it ends; allowed lag ends the comparison there."""
    assert numbers(extent_of(NAMES, log(0, 10), log(0, 7))) == (0, 10, 7, 0)
    assert numbers(extent_of(NAMES, log(0, 10), log(0, 7), allow_lag=True)) == (0, 7, 7, 3)


def test_target_with_more_than_the_source() -> None:
    """What the target has behind the source's end is compared with nothing, except after `until`."""
    assert numbers(extent_of(NAMES, log(0, 10), log(0, 12))) == (0, 10, 12, 0)
    assert numbers(extent_of(NAMES, log(0, 10), log(0, 12), until=8)) == (0, 8, 8, 0)


def test_what_came_meanwhile_waits_for_no_transaction() -> None:
    """Where the target had more than the first look at the source, a later look is cut off where the target ends: what
    came since is in no open transaction. What waits for one still does.
    """
    target = log(0, 11)
    assert extent_of(NAMES, log(0, 12).up_to(11), target).waiting == 0
    assert extent_of(NAMES, LogRange(0, 12, 15).up_to(11), target).waiting == 3
    assert LogRange(0, 10, 15).up_to(11) == LogRange(0, 10, 15)


def test_times() -> None:
    """The offsets that belong to times bound the comparison at both sides."""
    assert numbers(extent_of(NAMES, log(2, 10), log(0, 10), since=1, until=8)) == (2, 8, 8, 0)
    assert numbers(extent_of(NAMES, log(2, 10), log(0, 10), since=5)) == (5, 10, 10, 0)


def test_log_that_does_not_exist() -> None:
    """A missing partition at the target lacks everything; one at the source only the target has is extra."""
    assert numbers(extent_of(NAMES, log(2, 10), None)) == (2, 10, 2, 0)
    assert numbers(extent_of(NAMES, None, log(2, 10))) == (2, 2, 10, 0)
    assert numbers(extent_of(NAMES, log(2, 10), None, allow_lag=True)) == (2, 2, 2, 8)


@given(logs, logs, st.none() | offsets, st.none() | offsets, st.booleans())
def test_extents_are_sound(
    source: LogRange,
    target: LogRange,
    since: int | None,
    until: int | None,
    allow_lag: bool,
) -> None:
    """Nothing is compared that a side cannot hold, and nothing that both hold within the bounds is left out."""
    found = extent_of(NAMES, source, target, since=since, until=until, allow_lag=allow_lag)

    assert found.offset_begin <= found.offset_end <= source.end
    assert found.offset_begin <= found.target_end
    assert not (allow_lag and found.target_end < found.offset_end)
    for offset in range(21):
        in_bounds = offset >= max(source.start, target.start, since or 0) and (until is None or offset < until)
        held = in_bounds and source.start <= offset < source.end and target.start <= offset < target.end
        if held:
            assert found.offset_begin <= offset < min(found.offset_end, found.target_end)


@given(offsets, offsets, offsets, st.lists(offsets, max_size=4))
def test_slices_cover_both_sides_once(begin: int, size: int, target_size: int, borders: list[int]) -> None:
    """Together the slices read each side's part of the extent, without gap or overlap."""
    end, target_end = begin + size, begin + target_size
    found = extent_of(NAMES, log(begin, end), log(begin, target_end))
    cuts = [begin, *sorted({border for border in borders if begin < border < end}), end]
    parts = [Slice(found.source._replace(offset_begin=b, offset_end=e), 10) for b, e in pairwise(cuts) if b < e]

    slices = list(compared_slices(found, parts))

    for side, whole in (("source", found.source), ("target", found.target)):
        read = [getattr(part, side) for part in slices if not getattr(part, side).is_empty]
        assert [offset for span in read for offset in range(*span[2:])] == list(range(*whole[2:]))
        assert all(span.key == whole.key for span in read)


def test_parts_of_a_slice() -> None:
    """A slice can be cut at its beginning, and asked for a single offset."""
    found = extent_of(NAMES, log(0, 10), log(0, 7))
    (part,) = compared_slices(found, [Slice(found.source, 100)])

    assert part.from_offset(4).source[2:] == (4, 10)
    assert part.from_offset(4).target[2:] == (4, 7)
    assert not part.from_offset(8).is_empty
    assert part.from_offset(10).is_empty
    assert part.at_offset(6).target[2:] == (6, 7)


def test_part_of_a_slice() -> None:
    """Both sides are clipped, and never turned around where one ends earlier."""
    extent = extent_of(NAMES, log(0, 100), log(0, 60))
    (whole,) = compared_slices(extent, [Slice(extent.source, 1000)])

    part, behind = whole.within(40, 80), whole.within(70, 200)

    assert (part.source[2:], part.target[2:], part.size_bytes) == ((40, 80), (40, 60), 400)
    assert (behind.source[2:], behind.target.is_empty, behind.size_bytes) == ((70, 100), True, 300)
