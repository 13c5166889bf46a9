"""How far the lanes of a link are, over many leases."""

from __future__ import annotations

from dataclasses import replace

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.process.latency import BUCKETS
from isthmus.spark.leases.progress import LanePlace, RunProgress

KEY = LaneKey(TargetTopic("orders"), 0)


def report(position: int, records: int, *, state: LaneState = LaneState.ACTIVE) -> LaneReport:
    """Where the lane stands, and what its lease has copied."""
    problem = None if state is LaneState.ACTIVE else Problem("the lease has ended")
    return LaneReport(
        key=KEY,
        state=state,
        position=position,
        source_end=100,
        records=records,
        size_bytes=records * 10,
        problem=problem,
    )


def histogram(count: int) -> list[int]:
    """Latencies that are all alike."""
    return [count] + [0] * (BUCKETS - 1)


def test_counts_add_up_over_leases() -> None:
    """A lease counts from its own beginning; of one that died its last word counts."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], histogram(10), 0.0)
    assert sum(progress.latency) == 10
    progress.close(0, 1, [report(15, 15, state=LaneState.STOPPED)], histogram(15), 1.0)
    assert sum(progress.latency) == 15
    progress.take(0, 2, [report(40, 25)], histogram(25), 2.0)
    progress.close(0, 2, [], [], 3.0)
    progress.take(0, 3, [report(50, 7)], histogram(7), 4.0)

    assert [(r.position, r.records, r.size_bytes) for r in progress.reports()] == [(50, 47, 470)]
    assert sum(progress.latency) == 47


def test_the_end_of_a_lease_is_not_the_end_of_its_lanes() -> None:
    """The next lease goes on, so the lane is shown as it was."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    progress.close(0, 1, [report(15, 15, state=LaneState.STOPPED)], [], 1.0)

    (shown,) = progress.reports()
    assert (shown.state, shown.problem, shown.position) == (LaneState.ACTIVE, None, 15)


def test_a_lease_that_ends_before_it_said_anything_leaves_no_problem() -> None:
    """What it copied counts, and that it has ended is nothing that is in the way of copying."""
    progress = RunProgress()
    progress.close(0, 1, [report(15, 15, state=LaneState.STOPPED)], [], 1.0)

    (shown,) = progress.reports()
    assert (shown.state, shown.problem, shown.records) == (LaneState.STOPPED, None, 15)


def test_where_a_lane_was_last_outlives_what_knows_no_place() -> None:
    """A lane that looks for its place has none, in whichever session; where it was before is remembered."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    progress.begin()
    progress.take(0, 2, [report(-1, 0, state=LaneState.STARTING)], [], 1.0)

    assert [r.position for r in progress.reports()] == [-1]
    assert progress.places == {KEY: LanePlace(10, 100)}


def test_a_lane_that_ended_for_good_says_so() -> None:
    """Its state is not covered by the end of the lease."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    progress.close(0, 1, [report(10, 10, state=LaneState.DATA_GAP)], [], 1.0)

    assert [r.state for r in progress.reports()] == [LaneState.DATA_GAP]


def test_loads_are_measured_over_some_seconds() -> None:
    """The first second of a lease says little; the newest lease that ran longer says it."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    assert progress.load(KEY) == 0.0
    progress.take(0, 1, [report(50, 50)], [], 10.0)
    assert progress.load(KEY) == 40.0


def test_loads_are_those_of_the_last_seconds() -> None:
    """A lane that rests is soon none, without a word of it; one that works again is one soon."""
    progress = RunProgress()
    other = LaneKey(TargetTopic("others"), 0)
    for second in range(30):
        progress.take(0, 1, [report(second, second)], [], float(second))
    assert progress.load(KEY) == 10.0
    for second in range(30, 60):
        progress.take(0, 1, [replace(report(1, 1), key=other)], [], float(second))
    assert progress.load(KEY) == 0.0
    for second in range(60, 90):
        progress.take(0, 1, [report(second * 7, second * 7)], [], float(second))
    assert progress.load(KEY) == 70.0


def test_a_lane_that_has_moved_is_measured_where_it_is() -> None:
    """The lease that it has left counts it no more, though it goes on with others."""
    progress = RunProgress()
    other = replace(report(0, 0), key=LaneKey(TargetTopic("others"), 0))
    for second in range(5):
        progress.take(0, 1, [report(second, second), other], [], float(second))
    progress.take(0, 1, [report(5, 5, state=LaneState.STOPPED)], [], 5.0)
    for second in range(5, 40):
        progress.take(1, 1, [report(second, second)], [], float(second))
        progress.take(0, 1, [other], [], float(second))
    assert progress.load(KEY) == 10.0


def test_forgotten_lanes_are_not_reported() -> None:
    """They were left out of the assignment."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    progress.forget([KEY])
    assert progress.reports() == []


def test_what_forgotten_lanes_copied_counts_all_the_same() -> None:
    """They were paused, or their topic is gone: what their lease says of them at last is counted and not shown."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], [], 0.0)
    progress.forget([KEY])
    progress.take(0, 1, [report(15, 15, state=LaneState.STOPPED)], [], 1.0)
    assert (progress.reports(), progress.records, progress.size_bytes) == ([], 15, 150)
    progress.take(0, 1, [report(20, 20)], [], 2.0)
    assert [(r.position, r.records) for r in progress.reports()] == [(20, 20)]


def test_a_session_that_begins_anew_goes_on_counting() -> None:
    """Nothing is known of its lanes, whose leases are told apart anew; all that was copied before still counts."""
    progress = RunProgress()
    progress.take(0, 1, [report(10, 10)], histogram(10), 0.0)
    progress.begin()
    assert progress.reports() == []
    assert (progress.records, progress.counts[KEY].records, sum(progress.latency)) == (10, 10, 10)
    progress.take(0, 1, [report(12, 2)], histogram(2), 0.0)
    assert [(r.position, r.records) for r in progress.reports()] == [(12, 12)]
    assert sum(progress.latency) == 12
