"""A lane that says it works has shown it lately, and what refuses it again and again is told."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.state.evidence import PATIENCE_S, QUIET_S, Evidence, Showing
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem

REFUSED = Problem("the target refuses")
TARGET, SOURCE = LaneState.TARGET_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE


def at(position: int, read_offset: int, *, pending: bool = False, at_end: float = -math.inf) -> Showing:
    """A lane that is placed."""
    return Showing(True, position, read_offset, pending, at_end)


def test_a_lane_at_its_end_works_as_long_as_the_source_is_heard() -> None:
    """Nothing has to be copied, only to be found out."""
    evidence = Evidence(0.0)
    for second in range(100):
        evidence.looked(at(10, 10, at_end=float(second)), second + 0.5)
        assert not evidence.is_quiet(second + 0.5)
    evidence.looked(at(10, 10, at_end=99.0), 99.0 + QUIET_S)
    assert evidence.is_quiet(99.0 + QUIET_S)


def test_what_waits_to_be_written_has_to_be_written() -> None:
    """Neither reading on nor what the source says is a sign of life then; nor is reading the same once more."""
    evidence = Evidence(0.0)
    evidence.looked(at(10, 20, pending=True), 1.0)
    for second in range(2, 30):
        evidence.looked(at(10, 20 + second, pending=True, at_end=float(second)), float(second))
    assert evidence.is_quiet(30.0)
    evidence.looked(at(11, 60, pending=True), 31.0)
    assert not evidence.is_quiet(31.0)
    for second in range(32, 60):
        evidence.looked(at(11, 12 if second % 2 else 40), float(second))
    assert evidence.is_quiet(60.0)


def test_a_lane_without_a_place_does_not_work() -> None:
    """Whatever is heard of its source."""
    evidence = Evidence(0.0)
    for second in range(30):
        evidence.looked(Showing(False, -1, second, False, float(second)), float(second))
    assert evidence.is_quiet(30.0)


def test_what_passes_is_no_state_and_what_lasts_is() -> None:
    """One refusal is none, nor are many within a moment; the same again for longer is, until the lane gets past it."""
    evidence = Evidence(0.0)
    evidence.looked(at(10, 20, pending=True), 1.0)
    assert evidence.hindered(TARGET, REFUSED, (10, 20), 1.0) == 1
    assert evidence.hindrance(1.0 + PATIENCE_S) is None
    assert evidence.hindered(TARGET, REFUSED, (10, 25), 2.0) == 2
    assert evidence.hindrance(2.0) is None
    found = evidence.hindrance(1.0 + PATIENCE_S)
    assert found is not None
    assert (found.state, found.problem) == (TARGET, REFUSED)
    evidence.looked(at(11, 25, pending=True), 4.0)
    assert evidence.hindrance(9.0) is None
    assert evidence.hindered(TARGET, REFUSED, (11, 25), 9.0) == 1


def test_the_only_refusal_is_told_when_nothing_happened_since() -> None:
    """It is the best explanation there is of why nothing moves."""
    evidence = Evidence(0.0)
    evidence.hindered(SOURCE, REFUSED, (-1, -1), 1.0)
    assert evidence.hindrance(QUIET_S - 0.1) is None
    assert evidence.hindrance(QUIET_S) is not None


def test_a_source_that_refuses_is_past_when_something_is_read() -> None:
    """What was read before is written meanwhile, which says nothing of the source."""
    evidence = Evidence(0.0)
    for second in (1.0, 4.0):
        evidence.hindered(SOURCE, REFUSED, (10, 20), second)
    evidence.looked(at(15, 20, pending=True), 5.0)
    assert evidence.hindrance(5.0) is not None
    evidence.looked(at(15, 21, pending=True), 6.0)
    assert evidence.hindrance(6.0) is None


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "read", "refuse", "end", "lose place", "wait"]),
        st.floats(min_value=0.01, max_value=8.0),
    ),
    max_size=60,
)


@given(EVENTS)
def test_never_active_while_nothing_moves(events: list[tuple[str, float]]) -> None:
    """Whatever happens in whichever order: a lane that is neither quiet nor hindered has written, or with nothing to
    write read or heard of its end, within `QUIET_S`.
    """
    now, position, read, end, evidence = 0.0, 0, 0, -math.inf, Evidence(0.0)
    shown, is_placed = 0.0, True
    evidence.looked(at(0, 0), 0.0)
    for what, after_s in events:
        now += after_s
        if what == "write" and position < read:
            position, shown, is_placed = position + 1, now, True
        elif what == "read":
            read += 1
        elif what == "refuse":
            evidence.hindered(TARGET, REFUSED, (position, read), now)
        elif what == "end":
            end = now
        elif what == "lose place":
            is_placed = False
        is_free = is_placed and position == read
        if is_free:
            shown = max(shown, end)
        evidence.looked(Showing(is_placed, position, read, position < read, end), now)
        assert evidence.is_quiet(now) == (now - shown >= QUIET_S)
