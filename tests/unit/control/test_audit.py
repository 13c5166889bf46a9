"""Records that Isthmus did not write are found, and nothing else is."""

from __future__ import annotations

from isthmus.cluster.offsets import LogRange
from isthmus.control.audit import Audit
from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneKey, LaneReport, LaneState

KEY = LaneKey("orders", 0)
WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))


def looked(audit: Audit, end: int, position: int, state: LaneState = LaneState.ACTIVE) -> bool:
    """Whether a look at the log's end and a lane's report finds a foreign write."""
    report = LaneReport(key=KEY, state=state, position=position, source_end=position)
    return bool(audit.look({("orders", 0): LogRange(0, end, end)}, {KEY: report}))


def test_a_log_that_stays_ahead_of_its_lane_was_written_to() -> None:
    """The second look at a log that ends behind the lane's position finds it."""
    audit = Audit(WEST)
    assert not looked(audit, end=11, position=10)
    assert looked(audit, end=11, position=10)


def test_a_lane_that_catches_up_wrote_itself() -> None:
    """A report may be older than the log's end, however often: the lane gets there later."""
    audit = Audit(WEST)
    for offset in range(0, 100, 10):
        assert not looked(audit, end=offset + 10, position=offset)


def test_suspicion_ends_when_lane_and_log_agree() -> None:
    """One look at a time counts: what was explained is forgotten."""
    audit = Audit(WEST)
    assert not looked(audit, end=11, position=10)
    assert not looked(audit, end=11, position=11)
    assert not looked(audit, end=12, position=11)


def test_lanes_that_are_not_active_prove_nothing() -> None:
    """A lane that lost its target does not know how far it came."""
    audit = Audit(WEST)
    for _ in range(3):
        assert not looked(audit, end=11, position=10, state=LaneState.TARGET_UNAVAILABLE)
        assert not looked(audit, end=11, position=-1)
