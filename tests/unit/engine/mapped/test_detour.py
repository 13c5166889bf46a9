"""What of a mapped lane cannot pass as the bytes it is."""

from __future__ import annotations

import asyncio

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.mapped.detour import ShortDetour
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.state.intake import Usability
from isthmus.kafka.batches.batch import Batch
from isthmus.model.lane import LaneState
from testing.records.stored import PLAIN, one, stored
from testing.values.engines import Part
from testing.values.looks import lane_of

RECORDS = [PLAIN._replace(value=b"%d" % n) for n in range(8)]


def lane(batch: Batch, position: int) -> LaneRun:
    """A lane that has read one batch which is too large, and whose target has what is before `position`."""
    run = lane_of(position=position, is_mapped=True, batch_bytes_max=batch.size_bytes // 2)
    run.intake.read_from(0)
    run.offer(iter([Piece(batch, is_plain=False, is_aborted=False)]))
    return run


def test_a_large_batch_is_taken_apart_once() -> None:
    """The fast path goes on with its parts, which hold every record of it."""
    run = lane(one(stored(0, RECORDS)), 0)
    asyncio.run(ShortDetour(Part()).take(run))
    assert len(run.intake.pending) > 1
    assert all(piece.is_plain for piece in run.intake.pending)
    assert [record.value for piece in run.intake.pending for record in records_of(piece.batch)] == [
        r.value for r in RECORDS
    ]


def test_what_the_target_has_is_dropped() -> None:
    """A batch that has arrived is counted, and nothing is sent for it."""
    run = lane(one(stored(0, RECORDS)), len(RECORDS))
    asyncio.run(ShortDetour(Part()).take(run))
    assert (len(run.intake.pending), run.tally.records) == (0, len(RECORDS))


def test_what_is_damaged_is_read_again() -> None:
    """A batch that does not hold what its header promises stops the lane."""
    batch = one(stored(0, RECORDS))
    run = lane(batch._replace(record_count=9, offset_end=9), 0)
    with pytest.raises(Refused):
        asyncio.run(ShortDetour(Part()).take(run))
    assert run.intake.usability is Usability.SPOILT


def test_what_lies_beyond_the_place_is_read_again() -> None:
    """Where a lane went back to what its target has left, a batch from further on would never be taken apart to it."""
    run = lane(one(stored(5, RECORDS)), 3)
    with pytest.raises(Refused):
        asyncio.run(ShortDetour(Part()).take(run))
    assert (run.intake.usability, run.state) == (Usability.SPOILT, LaneState.BLOCKED)


def test_nothing_is_done_without_permission() -> None:
    """A lane that may not write stays as it is."""
    run = lane(one(stored(0, RECORDS)), 0)
    asyncio.run(ShortDetour(Part(allowed=[False])).take(run))
    assert len(run.intake.pending) == 1
