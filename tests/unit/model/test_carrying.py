"""The rules for one position at the target, for every situation there may be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.carrying import Decision, Situation, Standing, Written, decide
from isthmus.model.group import Committed

OFFSETS = st.integers(0, 12)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    start = draw(OFFSETS)
    return Situation(
        source=Committed(draw(OFFSETS)),
        translated=draw(OFFSETS),
        committed=draw(st.none() | st.builds(Committed, OFFSETS)),
        log_start=start,
        high_watermark=start + draw(OFFSETS),
        is_vacant=draw(st.booleans()),
        written=draw(st.none() | st.builds(Written, OFFSETS, OFFSETS)),
    )


@given(situations())
def test_what_is_committed_lies_within_the_log(situation: Situation) -> None:
    """Never above the high watermark, never below the log start, never beyond the source's own position unless the
    records there are gone at the target.
    """
    offset = decide(situation).offset
    if offset is not None:
        assert situation.log_start <= offset <= situation.high_watermark
        assert offset <= max(situation.translated, situation.log_start)


@given(situations())
def test_a_group_with_members_is_left_alone(situation: Situation) -> None:
    """Nothing is written while the group is active at the target."""
    assert decide(replace(situation, is_vacant=False)).offset is None


@given(situations())
def test_a_position_goes_back_only_with_its_source(situation: Situation) -> None:
    """Back only where the position is ours, and the source went back or the target lost what lay before it."""
    offset = decide(situation).offset
    if offset is not None and situation.committed is not None and offset < situation.committed.offset:
        written = situation.written
        assert written is not None
        assert written.target == situation.committed.offset
        assert situation.source.offset < written.source or situation.committed.offset > situation.high_watermark


@given(situations())
def test_what_others_moved_stays_until_the_source_moves(situation: Situation) -> None:
    """An operator who resets the target is not overruled, also not by two links that carry in both directions."""
    written, committed = situation.written, situation.committed
    if written is not None and committed is not None and written.target != committed.offset:
        unmoved = replace(situation, source=Committed(written.source))
        assert decide(unmoved).offset is None


@given(situations())
def test_what_was_done_is_done(situation: Situation) -> None:
    """After a decision was carried out there is nothing left to do."""
    offset = decide(situation).offset
    if offset is not None:
        written = Written(situation.source.offset, offset)
        after = decide(replace(situation, committed=Committed(offset), written=written))
        assert after.offset is None
        assert after.standing in (Standing.IN_STEP, Standing.CATCHING_UP)


@given(OFFSETS, OFFSETS, OFFSETS)
def test_identity_misses_nothing_and_repeats_nothing(position: int, end: int, later: int) -> None:
    """A group that goes on at the target, once the mirror has caught up, goes on exactly where it was."""
    situation = Situation(
        source=Committed(position),
        translated=position,
        committed=None,
        log_start=0,
        high_watermark=min(position, end),
        is_vacant=True,
    )
    first = decide(situation)
    assert first.offset == min(position, end)
    caught_up = replace(
        situation,
        committed=Committed(first.offset),
        written=Written(position, first.offset),
        high_watermark=position + later,
    )
    after = decide(caught_up)
    assert (first.offset if after.offset is None else after.offset) == position
    assert after.standing in (Standing.IN_STEP, Standing.DUE)


def test_standings() -> None:
    """Each reason has its word."""
    situation = Situation(
        source=Committed(5), translated=5, committed=None, log_start=0, high_watermark=9, is_vacant=True
    )
    assert decide(situation) == Decision(Standing.DUE, 5)
    assert decide(replace(situation, high_watermark=3)) == Decision(Standing.CATCHING_UP, 3)
    assert decide(replace(situation, committed=Committed(5))) == Decision(Standing.IN_STEP)
    assert decide(replace(situation, committed=Committed(7))) == Decision(Standing.AHEAD_AT_TARGET)
    assert decide(replace(situation, is_vacant=False)) == Decision(Standing.ACTIVE_AT_TARGET)
    noted = replace(situation, source=Committed(5, metadata="new"), committed=Committed(5))
    assert decide(noted) == Decision(Standing.IN_STEP)
    assert decide(replace(noted, written=Written(5, 5))) == Decision(Standing.DUE, 5)
    assert decide(replace(noted, written=Written(5, 5, "old"))) == Decision(Standing.DUE, 5)
    assert decide(replace(noted, written=Written(5, 5, "new"))) == Decision(Standing.IN_STEP)
    moved = replace(situation, committed=Committed(3), written=Written(5, 5))
    assert decide(moved) == Decision(Standing.MOVED_AT_TARGET)
    assert decide(replace(moved, source=Committed(6), translated=6)) == Decision(Standing.DUE, 6)
    back = replace(situation, committed=Committed(7), written=Written(7, 7))
    assert decide(back) == Decision(Standing.DUE, 5)
