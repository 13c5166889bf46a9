"""Which pairs of offsets are told of a lane."""

from __future__ import annotations

from isthmus.mirrormaker.offset_syncs import Course, copies_at, pairs_due, same_at
from isthmus.model.kafka.mirrormaker_records import OffsetSync, SyncKey
from isthmus.model.naming import SourceTopic
from isthmus.model.translation import MappedRange, OffsetMap

KEY = SyncKey(SourceTopic("t"), 0)


def same(last: int, first: int = 0) -> Course:
    """A lane of the same offsets."""
    return Course(KEY, (first, first), (last, last), same_at)


def told(course: Course, before: int | None, *, lag_max: int = 100, stands_still: bool = False) -> list[int]:
    """The source offsets that are told, `before` being the one told last."""
    last = None if before is None else OffsetSync(KEY, before, before)
    found = list(pairs_due(course, last, lag_max, stands_still=stands_still))
    assert all(pair.upstream == pair.downstream and pair.key == KEY for pair in found)
    return [pair.upstream for pair in found]


def test_a_lane_is_told_from_its_beginning() -> None:
    """The first record, some between, and the last one, in the order of the source."""
    assert told(same(50), None) == [0, 50]
    assert told(same(250), None) == [0, 101, 202, 250]
    assert told(same(1000, first=1000), None) == [1000]


def test_a_large_step_is_told_in_few_pairs() -> None:
    """However much was copied between two looks."""
    found = told(same(1_000_000), None)

    assert found == sorted(found)
    assert len(found) <= 18
    assert (found[0], found[-1]) == (0, 1_000_000)


def test_a_lane_is_told_again_beyond_the_lag() -> None:
    """More than `offset_lag_max` records behind the last pair, and before that only when it stands still."""
    assert told(same(150), 50) == []
    assert told(same(150), 50, stands_still=True) == [150]
    assert told(same(151), 50) == [151]
    assert told(same(51), 50, lag_max=0) == [51]
    assert told(same(50), 50, stands_still=True) == []


def test_a_lane_that_went_back_is_told_where_it_is() -> None:
    """Readers forget what lies behind, so it does not begin anew."""
    assert told(same(20), 50) == [20]


def test_another_copy_is_told_from_its_beginning() -> None:
    """A target topic that was made anew: what was told of the former one is overruled, from its first record on."""
    found = pairs_due(same(60), OffsetSync(KEY, 50, 70), 100, stands_still=False)

    assert [(pair.upstream, pair.downstream) for pair in found] == [(0, 0), (60, 60)]


def test_mapped_pairs_are_records_that_were_copied() -> None:
    """Between two ranges the last record before counts: an offset without a record has no place at the target."""
    at = copies_at(OffsetMap((MappedRange(10, 30, 5), MappedRange(20, 40, 5))))

    assert [at(offset) for offset in (9, 10, 14, 17, 20, 99)] == [
        None,
        (10, 30),
        (14, 34),
        (14, 34),
        (20, 40),
        (24, 44),
    ]
