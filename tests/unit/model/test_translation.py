"""Translated positions: a consumer that fails over misses nothing, and reads no more again than the way states."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.translation import MappedRange, OffsetMap, timestamp_to_look_up

# A log: for each source offset the timestamp of its record and where it went, None where it was not copied.
logs = st.lists(st.tuples(st.integers(0, 500), st.none() | st.integers(0, 3)), max_size=30)


def copied(log: list[tuple[int, int | None]]) -> dict[int, int]:
    """Target offsets by source offset; the number of a record says how many other records came in between."""
    found: dict[int, int] = {}
    end = 0
    for source, (_, skip) in enumerate(log):
        if skip is not None:
            found[source] = end + skip
            end = found[source] + 1
    return found


@given(logs, st.integers(0, 35))
def test_a_map_is_exact(log: list[tuple[int, int | None]], position: int) -> None:
    """By map: every record from the position on is still to be read, and none before it is."""
    where = copied(log)
    offsets = OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items())
    translated = offsets.lookup(position)
    if not where:
        assert translated is None
        return
    assert translated is not None
    assert all((target >= translated) == (source >= position) for source, target in where.items())


@given(logs)
def test_a_map_joins_what_continues(log: list[tuple[int, int | None]]) -> None:
    """Neighbouring ranges become one, so that a map is as short as what happened."""
    where = copied(log)
    ranges = OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items()).ranges
    assert sum(one.length for one in ranges) == len(where)
    assert all((a.source_end, a.target_end) != (b.source_begin, b.target_begin) for a, b in pairwise(ranges))


def test_contradictions_are_refused() -> None:
    """A source offset that went to two places is no map."""
    with pytest.raises(ConfigError, match="contradict"):
        OffsetMap.of([MappedRange(0, 0, 5), MappedRange(4, 9, 1)])


@given(logs, st.integers(0, 35), st.integers(0, 100), st.integers(0, 40))
def test_a_timestamp_is_never_too_late(
    log: list[tuple[int, int | None]], position: int, margin: int, behind: int
) -> None:
    """By timestamp: nothing from the position on is missed, whatever the order of timestamps and however far the mirror
    is behind; and with timestamps in order nothing is read again that is older than the margin.
    """
    log = [(stamp, 0) for stamp, _ in log]
    position = min(position, len(log))
    if not log:
        return
    record_ms = log[min(position, len(log) - 1)][0]
    asked = timestamp_to_look_up(record_ms, margin)
    target = log[: max(len(log) - behind, 0)]
    found = next((offset for offset, (stamp, _) in enumerate(target) if stamp >= asked), len(target))
    assert found <= position
    ordered = sorted(stamp for stamp, _ in log)
    first = next(offset for offset, stamp in enumerate(ordered) if stamp >= timestamp_to_look_up(ordered[-1], margin))
    assert all(ordered[-1] - stamp <= margin for stamp in ordered[first:])


def test_the_margin_is_read_again() -> None:
    """Clocks differ, and records do not come in the order of their timestamps: a minute, unless another is given."""
    assert timestamp_to_look_up(1_000_000) == 940_000
    assert timestamp_to_look_up(1_000_000, 300) == 999_700
    assert timestamp_to_look_up(100, 300) == 0
    assert timestamp_to_look_up(301, 300) == 1


def test_what_was_not_copied_is_passed_over() -> None:
    """A position in a hole, before the first range or behind the last one is that of what was copied next to it."""
    offsets = OffsetMap.of([MappedRange(20, 5, 5), MappedRange(10, 0, 5)])
    assert [offsets.lookup(position) for position in (0, 10, 14, 15, 19, 20, 24, 25, 99)] == [
        0,
        0,
        4,
        5,
        5,
        5,
        9,
        10,
        10,
    ]
    assert OffsetMap().lookup(0) is None


def test_ranges_that_touch_on_one_side_only_stay_apart() -> None:
    """And such that touch on both are one, however many there are; empty ones say nothing."""
    one = OffsetMap.of([MappedRange(0, 0, 2), MappedRange(2, 2, 3), MappedRange(5, 5, 1)])
    assert one.ranges == (MappedRange(0, 0, 6),)
    apart = (MappedRange(0, 0, 2), MappedRange(2, 3, 2), MappedRange(5, 5, 2))
    assert OffsetMap.of(apart).ranges == apart
    assert OffsetMap.of([MappedRange(0, 0, 0), MappedRange(3, 1, 0)]).ranges == ()


@pytest.mark.parametrize("other", [MappedRange(4, 5, 1), MappedRange(5, 4, 1), MappedRange(9, 0, 1)])
def test_ranges_that_overlap_on_either_side_are_refused(other: MappedRange) -> None:
    """Each offset went to one place, in one order."""
    with pytest.raises(ConfigError, match="contradict"):
        OffsetMap.of([MappedRange(0, 0, 5), other])


def map_of(where: dict[int, int]) -> OffsetMap:
    return OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items())


@given(logs, st.integers(0, 35), st.integers(0, 35))
def test_a_part_of_a_map(log: list[tuple[int, int | None]], begin: int, end: int) -> None:
    """It says of its offsets what the whole says, and nothing else."""
    where = copied(log)
    part = map_of(where).within(begin, end)
    named = {one.source_begin + n: one.target_begin + n for one in part for n in range(one.length)}
    assert named == {source: target for source, target in where.items() if begin <= source < end}


@given(logs, st.integers(0, 120))
def test_the_first_source_offset(log: list[tuple[int, int | None]], offset: int) -> None:
    """The first whose record lies at a target offset, or behind it."""
    where = copied(log)
    wanted = min((source for source, target in where.items() if target >= offset), default=None)
    assert map_of(where).first_source(offset) == wanted


@given(st.sets(st.integers(0, 60)), st.randoms(use_true_random=False))
def test_maps_say_the_same_in_whatever_order_and_however_often_their_parts_come(
    sources: set[int], chance: random.Random
) -> None:
    """Merging is commutative, associative and idempotent: what overlaps, comes late or comes twice changes nothing."""
    whole = [MappedRange(source, 100 + n + n // 7, 1) for n, source in enumerate(sorted(sources))]
    wanted = OffsetMap.of(whole)
    parts = []
    for _ in range(4):
        begin, end = sorted((chance.randint(0, len(whole)), chance.randint(0, len(whole))))
        parts.append(OffsetMap.of(whole[begin:end]).ranges)
    parts += [wanted.ranges, tuple(whole)]
    chance.shuffle(parts)
    assert OffsetMap.of(one for part in parts for one in part) == wanted
    merged = OffsetMap()
    for part in parts:
        merged = OffsetMap.of((*OffsetMap.of(part).ranges, *merged.ranges))
    assert merged == wanted


@given(logs, st.integers(0, 70))
def test_the_way_back_is_exact(log: list[tuple[int, int | None]], target_offset: int) -> None:
    """The first source offset for one of the target is that of the first record there or behind it."""
    where = copied(log)
    offsets = OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items())
    behind = [source for source, target in where.items() if target >= target_offset]
    assert offsets.first_source(target_offset) == min(behind, default=None)


def test_ranges_of_nothing_are_left_out() -> None:
    """Whatever comes behind them in the order of the source is still taken."""
    assert OffsetMap.of([MappedRange(0, 0, 0), MappedRange(5, 3, 2)]).ranges == (MappedRange(5, 3, 2),)
