"""Every way between the states of a lane at work."""

from __future__ import annotations

import pytest

from isthmus.engine.state.phase import Phase

SEEKING, FLOWING, DETOURED, LEAVING = Phase


@pytest.mark.parametrize(
    ("phase", "doubted", "placed", "diverted", "returned"),
    [
        (SEEKING, SEEKING, FLOWING, SEEKING, SEEKING),
        (FLOWING, SEEKING, FLOWING, DETOURED, FLOWING),
        (DETOURED, LEAVING, DETOURED, DETOURED, FLOWING),
        (LEAVING, LEAVING, DETOURED, LEAVING, SEEKING),
    ],
)
def test_where_each_event_leads(phase: Phase, doubted: Phase, placed: Phase, diverted: Phase, returned: Phase) -> None:
    """From every phase each event leads to one, and only a lane that flows is diverted."""
    assert (phase.doubted(), phase.placed(), phase.diverted(), phase.returned()) == (
        doubted,
        placed,
        diverted,
        returned,
    )


@pytest.mark.parametrize(
    ("phase", "is_placed", "is_detoured"),
    [(SEEKING, False, False), (FLOWING, True, False), (DETOURED, True, True), (LEAVING, False, True)],
)
def test_what_a_phase_says(phase: Phase, is_placed: bool, is_detoured: bool) -> None:
    """Whether the place is known, and whether the slow path has the lane, are told apart."""
    assert (phase.is_placed, phase.is_detoured) == (is_placed, is_detoured)
