"""Control records: what is known of one that was asked for."""

from __future__ import annotations

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.run import LaneRun
from isthmus.engine.same.detour import Detour
from isthmus.engine.state.phase import Phase
from isthmus.errors import BrokerRefused, Unreachable
from isthmus.kafka import codes
from isthmus.model.lane import Gap
from testing.records.stored import marker, one
from testing.values.engines import Part
from testing.values.leader import Led, OneLeader, with_leader
from testing.values.looks import lane_of


def written(run: LaneRun, led: Led, engine: Part | None = None) -> None:
    """Have everything written that the lane holds."""
    run.phase = Phase.FLOWING

    async def work(routes: OneLeader) -> None:
        await Detour(engine or Part(), routes).take(run)

    with_leader(led, work)


def lane_with_marker(*, commit: bool) -> LaneRun:
    """A lane at offset 5, where the source has the end of a transaction."""
    run = lane_of(position=5)
    run.intake.read_from(5)
    run.offer(iter([Piece(one(marker(5, 7, commit=commit)), is_plain=False, is_aborted=False)]))
    return run


def test_control_records_take_the_offsets_they_were_written_for() -> None:
    """A leader that answers has them: nothing is in flight and nothing is doubted."""
    run, led = lane_with_marker(commit=True), Led()
    written(run, led)
    assert (run.writer.position, run.writer.unsequenced) == (6, 1)
    assert (run.writer.in_flight, run.writer.abandoned) == (False, False)
    assert [[m.transaction_result for m in request.markers] for request in led.asked[1:]] == [[True]]


def test_a_control_record_without_an_answer_may_be_in_the_log() -> None:
    """Or arrive there later: it is abandoned, so that the lane settles before it goes on. It is not sent again."""
    run, led = lane_with_marker(commit=True), Led(answers=1)
    with pytest.raises(Unreachable):
        written(run, led)
    assert len(led.asked) == 2
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (5, False, True)


def test_a_control_record_of_an_owner_with_a_slow_clock() -> None:
    """One before it had a later coordinator epoch: it takes an even later one when it has looked again."""
    run, led = lane_with_marker(commit=True), Led(refusal=codes.TRANSACTION_COORDINATOR_FENCED)
    run.transactions.marker_epoch = 7
    with pytest.raises(BrokerRefused):
        written(run, led)
    assert [marker.coordinator_epoch for marker in led.asked[1].markers] == [7]
    assert run.transactions.marker_epoch > 1000


@pytest.mark.parametrize(("allowed", "position"), [([True], 12), ([True, False], 5), ([False], 5)])
def test_offsets_are_filled_as_long_as_writing_is_allowed(allowed: list[bool], position: int) -> None:
    """It is asked before every request; each offset that holds no record takes one control record."""
    run, led = lane_of(position=5, continues_after_gap=True), Led()
    run.missing.gaps.append(Gap(5, 12))
    written(run, led, Part(allowed=allowed))
    assert run.writer.position == position
    assert sum(len(request.markers) for request in led.asked[1:]) == position - 5
