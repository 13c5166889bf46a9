"""How late a lane is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.metrics.lateness import Lateness


def test_lateness_begins_when_there_is_something_to_copy() -> None:
    """It grows until what was there first is copied, whatever comes behind it; then it is that of what came next."""
    late = Lateness()
    assert late.lag_s(10, 10, 0.0) == 0.0
    assert late.lag_s(10, 15, 5.0) == 0.0
    assert late.lag_s(12, 15, 8.0) == 3.0
    assert late.lag_s(12, 20, 9.0) == 4.0
    assert late.lag_s(15, 20, 10.0) == 1.0
    assert late.lag_s(20, 20, 11.0) == 0.0
    assert late.lag_s(20, 21, 100.0) == 0.0


def test_what_is_unknown_is_not_told() -> None:
    """Neither end is known at first, and what was seen before counts on when they are again."""
    late = Lateness()
    assert late.lag_s(-1, 15, 0.0) is None
    assert late.lag_s(10, 15, 1.0) == 0.0
    assert late.lag_s(10, -1, 2.0) is None
    assert late.lag_s(10, 15, 4.0) == 3.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=300))
def test_never_less_late_than_it_is(steps: list[tuple[int, int]]) -> None:
    """Against all moments there ever were: at most a little later, and exact while few are kept."""
    late, position, end, seen = Lateness(), 0, 0, dict[int, float]()
    for now, (read, written) in enumerate(steps):
        end += written
        position = min(position + read, end)
        seen.setdefault(end, float(now))
        due = [at for offset, at in seen.items() if offset > position]
        true_s = now - min(due) if due else 0.0
        found = late.lag_s(position, end, float(now))
        assert found is not None
        assert found >= true_s
        assert (found > 0) <= bool(due)
        if len(due) < 16:
            assert found - true_s <= len(steps)


@given(st.integers(1, 31))
def test_exact_while_few_moments_are_kept(count: int) -> None:
    """Up to thirty-two moments none is put together with another."""
    late = Lateness()
    for moment in range(count):
        late.lag_s(0, moment + 1, float(moment))
    for copied in range(count):
        assert late.lag_s(copied, count, 100.0) == 100.0 - copied
