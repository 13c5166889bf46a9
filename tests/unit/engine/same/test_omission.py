"""What is left out of a lane: which offsets, in how many requests, and what of it is damaged."""

from __future__ import annotations

import pytest

from isthmus.engine.batches.pieces import pieces
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.same.detour import Detour
from isthmus.engine.same.omission import stretch
from isthmus.engine.state.intake import Usability
from isthmus.engine.state.phase import Phase
from isthmus.kafka.batches.batch import Batch
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import LaneState
from testing.records.stored import PLAIN, marker, one, stored
from testing.values.engines import Part
from testing.values.leader import Led, OneLeader, with_leader
from testing.values.looks import lane_of

ABORTED, OTHER, COMMITTED = 7, 8, 9


def data(offset: int, count: int, producer_id: int) -> Batch:
    """Records of a transaction."""
    return one(stored(offset, [PLAIN] * count, producer_id=producer_id, transactional=True))


LOG = (
    data(5, 3, ABORTED),
    data(8, 2, OTHER),
    one(marker(10, ABORTED, commit=False)),
    data(11, 1, OTHER),
    data(12, 4, COMMITTED),
    one(marker(16, OTHER, commit=False)),
)


def lane_with(*batches: Batch, position: int = 5) -> LaneRun:
    """A lane that has read these batches, of which the transactions of `ABORTED` and `OTHER` are aborted."""
    run = lane_of(position=position, aborted=AbortedPolicy.OMIT)
    run.intake.read_from(batches[0].base_offset)
    aborted = [(ABORTED, 5), (OTHER, 8)]
    run.offer(pieces([(batch, 1) for batch in batches], aborted, bytes_max=1 << 20))
    return run


def taken(run: LaneRun, led: Led, engine: Part | None = None) -> None:
    """Let the detour take the lane as far as it may."""
    run.phase = Phase.FLOWING

    async def work(routes: OneLeader) -> None:
        await Detour(engine or Part(), routes).take(run)

    with_leader(led, work)


def written(led: Led) -> list[int]:
    """How many control records each request had that was written to the partition."""
    requests = [request for request in led.asked if hasattr(request, "markers")]
    return [len(request.markers) for request in requests[1:]]


def test_what_follows_is_left_out_as_well() -> None:
    """Data and ends of aborted transactions go together, up to what is copied, a hole, or the end of what was read."""
    assert [piece.batch.base_offset for piece in stretch(lane_with(*LOG).intake.pending)] == [5, 8, 10, 11]
    assert [piece.batch.base_offset for piece in stretch(lane_with(LOG[0], LOG[2]).intake.pending)] == [5]
    assert list(stretch(lane_with(LOG[4]).intake.pending)) == []
    assert list(stretch(lane_with(one(marker(5, COMMITTED, commit=True))).intake.pending)) == []


def test_one_request_takes_all_that_is_left_out() -> None:
    """Nothing is asked of coordinators, nothing counts as copied, and the next record takes the next offset."""
    run, led = lane_with(*LOG), Led(stable=5)
    taken(run, led)
    assert (run.writer.position, run.writer.unsequenced) == (12, 7)
    assert written(led) == [7]
    assert (run.tally.records, run.tally.size_bytes) == (0, 0)
    assert [piece.batch.base_offset for piece in run.intake.pending] == [12, 16]


def test_the_rest_of_a_batch_is_left_out() -> None:
    """The target may end within one: by what was written before, or by a setting that was another."""
    run, led = lane_with(*LOG[:1], position=7), Led(stable=7)
    taken(run, led)
    assert (run.writer.position, written(led)) == (8, [1])


def test_damaged_data_may_not_be_aborted() -> None:
    """What is whole before it is left out; then the lane is blocked until the source delivers whole bytes."""
    broken = bytearray(LOG[1].view)
    broken[-1] ^= 1
    run, led = lane_with(LOG[0], one(bytes(broken))), Led(stable=5)
    with pytest.raises(Refused):
        taken(run, led)
    assert (run.writer.position, written(led)) == (8, [3])
    assert (run.state, run.intake.usability is Usability.SPOILT) == (LaneState.BLOCKED, True)


def test_nothing_is_left_out_where_writing_is_forbidden() -> None:
    """What was read stays."""
    run, led = lane_with(*LOG), Led(stable=5)
    taken(run, led, Part(allowed=[True, False]))
    assert (run.writer.position, written(led), len(run.intake.pending)) == (5, [], 6)
