"""What a partition that has diverged consists of, and offsets that were set aside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.links.recovery import DivergedPartition, LogSpan, OffsetRuns, quarantine_of
from isthmus.model.text.plain import plain


def partition(source: tuple[int, int], target: tuple[int, int], shared: int) -> DivergedPartition:
    return DivergedPartition(
        partition=0,
        source_begin=source[0],
        source_end=source[1],
        target_begin=target[0],
        target_end=target[1],
        shared=shared,
    )


def test_a_copy_that_lags_has_not_diverged() -> None:
    """What the source has more is no divergence, and neither is what the source has deleted."""
    found = partition((5, 20), (0, 10), 10)
    assert not found.has_diverged
    assert (found.head, found.tail) == (LogSpan(0, 5), LogSpan(10, 10))


def test_a_foreign_tail() -> None:
    """From the first difference on all is the target's own, and so is what the source has deleted."""
    found = partition((5, 20), (2, 13), 10)
    assert found.has_diverged
    assert (found.head, found.tail) == (LogSpan(2, 5), LogSpan(10, 13))
    assert plain(found)["only_at_target"] == 6
    assert found.goes_on_at == 10


def test_a_gap() -> None:
    """A target that ends before the source begins cannot go on, and all that it has is its own."""
    found = partition((15, 20), (3, 10), 10)
    assert found.has_diverged
    assert (found.head, found.tail) == (LogSpan(3, 10), LogSpan(10, 10))
    assert found.goes_on_at == 15
    assert not partition((15, 20), (0, 0), 0).has_diverged


def test_a_source_that_lost_everything() -> None:
    """The target lies beyond all that the source has."""
    found = partition((0, 4), (6, 9), 4)
    assert found.has_diverged
    assert found.tail == LogSpan(6, 9)


@given(offsets=st.lists(st.integers(0, 60)))
def test_runs_hold_what_was_added(offsets: list[int]) -> None:
    """In whichever order, and however often: each offset once, in order."""
    runs = OffsetRuns(offsets)
    assert list(runs) == sorted(set(offsets))
    assert runs.count == len(set(offsets))
    assert all((offset in runs) == (offset in offsets) for offset in range(62))


def test_the_name_of_a_quarantine() -> None:
    """It tells the topic; two long names that begin alike have two."""
    assert quarantine_of("orders") == "__isthmus.quarantine.orders"
    first, second = quarantine_of("a" * 248 + "b"), quarantine_of("a" * 248 + "c")
    assert first != second
    assert len(first) == len(second) == 249
