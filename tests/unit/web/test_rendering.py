"""How states are coloured."""

from __future__ import annotations

from isthmus.groups.positions.carrying import Standing
from isthmus.model.lane import LaneState
from isthmus.model.loop import LoopState
from isthmus.model.state import LinkState
from isthmus.web.operations import OperationState
from isthmus.web.rendering import TONES

BAD = {
    LinkState.IMPAIRED,
    "FAILED",
    "IN_ERROR",
    "UNAVAILABLE",
    "UNSUPPORTED",
    "NOT_AUTHORIZED",
    *(state for state in LaneState if state.is_terminal),
    LaneState.SOURCE_UNAVAILABLE,
    LaneState.TARGET_UNAVAILABLE,
    LaneState.BLOCKED,
    Standing.ACTIVE_AT_TARGET,
    Standing.AHEAD_AT_TARGET,
    Standing.MOVED_AT_TARGET,
    Standing.CLOCKS_DIFFER,
    Standing.NOT_MIRRORED,
    Standing.OFFSETS_DIFFER,
    Standing.MIRROR_ENDED,
    Standing.NAMES_MEET,
}


def test_every_state_has_the_tone_it_means() -> None:
    """What is settled, ordinary or passing is not shown as bad, and no tone is of a word that is no state."""
    states = {str(each) for kind in (LinkState, LoopState, LaneState, Standing, OperationState) for each in kind}
    told = set().union(*TONES.values())
    assert {str(each) for each in BAD} == states - told
    assert told <= states
