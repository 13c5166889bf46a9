"""States derived from what is known: what an operator has to know first comes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.lane import LaneState
from isthmus.model.state import (
    AGED_S,
    UNHEARD_S,
    ControllerState,
    LaneEvidence,
    LinkEvidence,
    LinkState,
    lane_state,
    link_state,
)

ALIVE, NONE = ControllerState.ALIVE, ControllerState.NONE
TERMINAL = [state for state in LaneState if state.is_terminal]
PASSING = [state for state in LaneState if not state.is_terminal]

lanes = st.builds(
    LaneEvidence,
    controller=st.sampled_from(ControllerState),
    ended=st.none() | st.sampled_from(TERMINAL),
    is_paused=st.booleans(),
    source_is_away=st.booleans(),
    target_is_away=st.booleans(),
    is_at_source=st.booleans(),
    reported=st.none() | st.sampled_from(PASSING),
    reported_s=st.sampled_from([0.0, UNHEARD_S, UNHEARD_S + 1, 1e6]),
)


@given(lanes)
def test_a_lane_is_active_only_if_it_says_so_itself(known: LaneEvidence) -> None:
    """ACTIVE needs a live controller, both clusters, no pause, and the word of the lane, which is not old."""
    if lane_state(known) is LaneState.ACTIVE:
        assert known.controller.runs
        assert known.reported is LaneState.ACTIVE
        assert known.reported_s <= UNHEARD_S
        assert {known.is_paused, known.source_is_away, known.target_is_away} == {False}
        assert known.ended is None


@given(lanes)
def test_what_lasts_comes_first(known: LaneEvidence) -> None:
    """Nothing hides a state that needs an operator, and no outage hides a pause."""
    state = lane_state(known)
    if known.ended is not None:
        assert state is known.ended
    elif known.is_paused:
        assert state is LaneState.PAUSED


@given(lanes)
def test_nothing_runs_without_a_controller(known: LaneEvidence) -> None:
    """Without a controller a lane is what lasts, paused, away or stopped: never starting, never active."""
    if not known.controller.runs:
        assert lane_state(known) not in (LaneState.STARTING, LaneState.ACTIVE, LaneState.BLOCKED)


def test_a_lane_that_was_not_heard_is_starting() -> None:
    """Without a report, or with one of a lease before, a lane of a live controller is on its way."""
    assert lane_state(LaneEvidence(controller=ALIVE)) is LaneState.STARTING
    assert lane_state(LaneEvidence(controller=ALIVE, reported=LaneState.STOPPED)) is LaneState.STARTING
    assert lane_state(LaneEvidence(controller=NONE)) is LaneState.STOPPED


def test_the_side_that_is_away_is_named() -> None:
    """Without its target nothing is known of a lane; a source that lacks the topic is like one that is away."""
    assert lane_state(LaneEvidence(controller=ALIVE, source_is_away=True)) is LaneState.SOURCE_UNAVAILABLE
    assert lane_state(LaneEvidence(controller=ALIVE, is_at_source=False)) is LaneState.SOURCE_UNAVAILABLE
    both = LaneEvidence(controller=ALIVE, source_is_away=True, target_is_away=True)
    assert lane_state(both) is LaneState.TARGET_UNAVAILABLE


def test_a_link_is_first_of_all_what_is_wrong_with_it() -> None:
    """Failed, away, paused, stopped, starting, impaired, active: each hides those behind it."""
    known = [
        LinkEvidence(controller=NONE, has_failed=True, is_away=True, is_paused=True),
        LinkEvidence(controller=NONE, is_away=True, is_paused=True),
        LinkEvidence(controller=ControllerState.UNKNOWN),
        LinkEvidence(controller=ALIVE, is_standing_by=True, is_paused=True),
        LinkEvidence(controller=NONE, is_paused=True),
        LinkEvidence(controller=ControllerState.SILENT),
        LinkEvidence(controller=ALIVE, is_impaired=True),
        LinkEvidence(controller=ALIVE, has_begun=True, is_impaired=True),
        LinkEvidence(controller=ALIVE, has_begun=True),
    ]
    assert [link_state(evidence) for evidence in known] == [
        LinkState.FAILED,
        LinkState.UNAVAILABLE,
        LinkState.UNAVAILABLE,
        LinkState.STANDBY,
        LinkState.PAUSED,
        LinkState.STOPPED,
        LinkState.STARTING,
        LinkState.IMPAIRED,
        LinkState.ACTIVE,
    ]


def test_a_controller_is_silent_after_ten_seconds() -> None:
    """Up to ten seconds of silence are a pause for breath."""
    assert ControllerState.from_age(None) is NONE
    assert ControllerState.from_age(AGED_S) is ALIVE
    assert ControllerState.from_age(AGED_S + 0.1) is ControllerState.SILENT
    # Brokers hold back what it writes, by its own word.
    assert ControllerState.from_age(AGED_S + 30, held_s=30.0) is ControllerState.THROTTLED
    assert ControllerState.from_age(AGED_S + 30.1, held_s=30.0) is ControllerState.SILENT
    assert ControllerState.from_age(None, held_s=30.0) is ControllerState.NONE
