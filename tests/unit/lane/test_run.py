"""What a lane knows of the source's leader epochs while it is read, read again and handed over."""

from __future__ import annotations

import uuid
from typing import Final

from isthmus.lane.pieces import Piece
from isthmus.lane.run import LaneRun, TailCheck
from isthmus.lane.writer import LogLook, Writer
from isthmus.model.lane import Lane, LaneMark
from isthmus.model.naming import SourceTopic, TargetTopic
from tests.unit.wire.stored import PLAIN, one, stored

LANE: Final = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=3,
)


def read(run: LaneRun, offset: int, *, leader_epoch: int) -> None:
    """Ten records come."""
    run.offer(iter([Piece(one(stored(offset, [PLAIN] * 10, leader_epoch=leader_epoch)), True, False)]))


def run_at(offset: int, epoch: int = -1) -> LaneRun:
    """A lane placed there."""
    run = LaneRun(LANE, Writer(abandoned=False))
    run.writer.looked(LogLook(offset, offset, None), settled=False)
    run.read_from(offset, epoch)
    run.tail_check = TailCheck.DONE
    return run


def test_the_epoch_survives_a_new_place() -> None:
    """What was read proves as much of all before it; only what lies beyond is unknown."""
    run = run_at(100)
    assert run.read_epoch == -1
    read(run, 100, leader_epoch=7)
    for offset in (110, 100, 20):
        run.read_from(offset)
        assert (run.read_offset, run.read_epoch) == (offset, 7)
    run.read_from(21, epoch=5)
    assert run.read_epoch == 5
    run.read_from(30)
    assert run.read_epoch == -1


def test_a_compared_record_tells_the_epoch_where_nothing_was_read() -> None:
    """The first owner learns it from what the source has at the end of the target's log."""
    run = run_at(100, epoch=6)
    assert run.read_epoch == 6
    run.read_from(100, epoch=9)
    assert run.read_epoch == 6


def test_how_a_lane_is_left() -> None:
    """The mark says where the target ends and in which epoch that was the source's; without certainty there is none."""
    run = run_at(100, epoch=6)
    assert run.mark == LaneMark(TargetTopic("orders"), 3, 100, 6)
    read(run, 100, leader_epoch=7)
    assert run.mark == LaneMark(TargetTopic("orders"), 3, 100, 7)
    doubted = run_at(100, epoch=6)
    doubted.tail_check = TailCheck.CONTENT
    assert doubted.mark is None
    assert run_at(100).mark is None
    assert run_at(0, epoch=6).mark is None
