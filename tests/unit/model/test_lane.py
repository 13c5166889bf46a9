"""States and reports of lanes."""

from __future__ import annotations

import pytest

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic

KEY = LaneKey(TargetTopic("orders"), 3)


def test_states_that_need_an_operator() -> None:
    """All other states heal by themselves or were asked for."""
    assert {state for state in LaneState if state.is_terminal} == {
        LaneState.REFUSED,
        LaneState.DATA_GAP,
        LaneState.DIVERGED,
        LaneState.TOPIC_RECREATED,
        LaneState.FOREIGN_WRITE,
        LaneState.FAILED,
    }


@pytest.mark.parametrize(
    ("position", "source_end", "lag"), [(3, 10, 7), (10, 10, 0), (12, 10, 0), (-1, 10, -1), (3, -1, -1)]
)
def test_lag(position: int, source_end: int, lag: int) -> None:
    """Offsets still to copy, never negative, and -1 while either end is unknown."""
    report = LaneReport(key=KEY, state=LaneState.ACTIVE, position=position, source_end=source_end)
    assert report.lag_records == lag


def test_lanes_are_named_like_partitions() -> None:
    """Topic and partition, as Kafka writes them."""
    assert str(KEY) == "orders-3"
