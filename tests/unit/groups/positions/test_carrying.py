"""The rules for one position at the target, for every situation there may be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isthmus.groups.positions.carrying import Decision, Situation, Standing, Written, decide
from isthmus.model.kafka.group import Committed

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
        is_reached=draw(st.booleans()),
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


ZERO = Situation(
    source=Committed(5), translated=5, committed=None, log_start=0, high_watermark=9, is_vacant=True, written=None
)


@given(situations())
def test_a_link_that_commits_nothing_tells_what_the_position_is(situation: Situation) -> None:
    """As soon as the records before it are there, whoever is at work there and whatever was written."""
    is_there = situation.is_reached and situation.translated <= situation.high_watermark
    standing = Standing.TRANSLATED if is_there else Standing.CATCHING_UP
    assert decide(replace(situation, commits=False)) == Decision(standing)


def test_a_source_that_stands_where_it_stood_sets_nothing_back() -> None:
    """Its position may be translated to an earlier one than before: the group has read further at the target since."""
    ours = replace(ZERO, committed=Committed(7), written=Written(5, 7))
    assert decide(ours) == Decision(Standing.AHEAD_AT_TARGET)
    assert decide(replace(ours, written=Written(6, 7))) == Decision(Standing.DUE, 5)
    assert decide(replace(ours, written=Written(6, 8))) == Decision(Standing.AHEAD_AT_TARGET)
    assert decide(replace(ours, written=None)) == Decision(Standing.AHEAD_AT_TARGET)


@given(situations())
def test_a_group_that_only_follows_goes_where_its_source_is(situation: Situation) -> None:
    """Forward or back, whoever moved it before, as far as the target has it; never while somebody is at work there."""
    following = replace(situation, only_follows=True)
    assert decide(replace(following, is_vacant=False)).offset is None
    found, before = decide(replace(following, is_vacant=True)).offset, situation.committed
    now = before.offset if found is None and before is not None else found
    assert now == min(max(situation.translated, situation.log_start), situation.high_watermark)


def test_a_position_behind_the_end_of_its_log_comes_back() -> None:
    """The target lost records: what was written here is out of range, what others wrote is not ours to mend."""
    lost = replace(ZERO, source=Committed(9), translated=9, committed=Committed(9), high_watermark=6)
    assert decide(replace(lost, written=Written(9, 9))) == Decision(Standing.CATCHING_UP, 6)
    assert decide(replace(lost, written=Written(9, 8))) == Decision(Standing.AHEAD_AT_TARGET)
    assert decide(replace(lost, high_watermark=9, written=Written(9, 9))) == Decision(Standing.IN_STEP)


def test_what_the_target_has_deleted_is_not_committed() -> None:
    """The position is where its log begins, and is in step there."""
    late = replace(ZERO, log_start=7, high_watermark=9)
    assert decide(late) == Decision(Standing.DUE, 7)
    assert decide(replace(late, committed=Committed(7))) == Decision(Standing.IN_STEP)
    assert decide(replace(late, committed=Committed(6))) == Decision(Standing.DUE, 7)


def test_catching_up_ends_where_the_position_is() -> None:
    """As long as the target does not hold what comes before it, its end is the position; at the end it is in step."""
    behind = replace(ZERO, high_watermark=4)
    assert decide(behind) == Decision(Standing.CATCHING_UP, 4)
    assert decide(replace(behind, committed=Committed(4))) == Decision(Standing.CATCHING_UP)
    assert decide(replace(behind, high_watermark=5, committed=Committed(4))) == Decision(Standing.DUE, 5)


def test_a_group_with_members_that_is_in_step_is_in_step() -> None:
    """Whether it is active counts only where something would be written."""
    active = replace(ZERO, is_vacant=False)
    assert decide(replace(active, committed=Committed(5))) == Decision(Standing.IN_STEP)
    assert decide(replace(active, committed=Committed(4))) == Decision(Standing.ACTIVE_AT_TARGET)


def test_only_a_reset_target_that_was_written_here_is_somebody_elses_move() -> None:
    """A first commit, one that is ours still, and a source that went on since are carried."""
    moved = replace(ZERO, committed=Committed(3), written=Written(5, 5))
    assert decide(moved) == Decision(Standing.MOVED_AT_TARGET)
    assert decide(replace(moved, written=None)) == Decision(Standing.DUE, 5)
    assert decide(replace(moved, written=Written(5, 3))) == Decision(Standing.DUE, 5)
    assert decide(replace(moved, written=Written(4, 5))) == Decision(Standing.DUE, 5)
    assert decide(replace(moved, committed=None)) == Decision(Standing.DUE, 5)


def test_metadata_is_carried_where_only_the_source_changed_it() -> None:
    """Beside a position of ours, of a group nobody is in; what is alike already, or was changed there alone, stays."""
    ours = replace(ZERO, source=Committed(5, metadata="new"), committed=Committed(5, metadata="old"))
    ours = replace(ours, written=Written(5, 5, "old"))
    assert decide(ours) == Decision(Standing.DUE, 5)
    assert decide(replace(ours, is_vacant=False)) == Decision(Standing.IN_STEP)
    assert decide(replace(ours, written=Written(5, 4, "old"))) == Decision(Standing.IN_STEP)
    assert decide(replace(ours, committed=Committed(5, metadata="new"))) == Decision(Standing.IN_STEP)
    assert decide(replace(ours, written=Written(5, 5, "new"))) == Decision(Standing.IN_STEP)


@given(situations())
def test_what_is_not_reached_is_never_in_step(situation: Situation) -> None:
    """A map that ends before the position says nothing of where it belongs: the group waits at its end."""
    found = decide(replace(situation, is_reached=False))
    assert found.standing not in (Standing.IN_STEP, Standing.DUE)
    assert found.offset == decide(replace(situation, is_reached=True)).offset


def test_a_position_at_the_high_watermark_is_not_set_back() -> None:
    """All before it is there: only what lies above the watermark was lost at the target."""
    situation = Situation(
        source=Committed(5),
        translated=5,
        committed=Committed(8),
        log_start=0,
        high_watermark=8,
        is_vacant=True,
        written=Written(5, 8),
    )
    assert decide(situation).standing is Standing.AHEAD_AT_TARGET
    assert decide(replace(situation, high_watermark=7)).offset == 5
