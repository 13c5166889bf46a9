"""What a lane knows of the source's leader epochs while it is read, read again and handed over."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Final

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import LogLook, Writer
from isthmus.model.lane import NO_END, Lane, LaneMark
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.trees.switching import Allowance
from testing.records.stored import PLAIN, one, stored

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
    run.intake.read_from(offset, epoch)
    run.belief.believe(7)
    return run


def test_the_epoch_survives_a_new_place() -> None:
    """What was read proves as much of all before it; only what lies beyond is unknown."""
    run = run_at(100)
    assert run.intake.read_epoch == -1
    read(run, 100, leader_epoch=7)
    for offset in (110, 100, 20):
        run.intake.read_from(offset)
        assert (run.intake.read_offset, run.intake.read_epoch) == (offset, 7)
    run.intake.read_from(21, epoch=5)
    assert run.intake.read_epoch == 5
    run.intake.read_from(30)
    assert run.intake.read_epoch == -1


def test_a_compared_record_tells_the_epoch_where_nothing_was_read() -> None:
    """The first owner learns it from what the source has at the end of the target's log."""
    run = run_at(100, epoch=6)
    assert run.intake.read_epoch == 6
    run.intake.read_from(100, epoch=9)
    assert run.intake.read_epoch == 6


def test_how_a_lane_is_left() -> None:
    """The mark says where the target ends and in which epoch that was the source's; without certainty there is none."""
    run = run_at(100, epoch=6)
    assert run.mark == LaneMark(TargetTopic("orders"), 3, 100, 6)
    read(run, 100, leader_epoch=7)
    assert run.mark == LaneMark(TargetTopic("orders"), 3, 100, 7)
    doubted = run_at(100, epoch=6)
    doubted.belief.doubt()
    assert doubted.mark is None
    assert run_at(100).mark is None
    assert run_at(0, epoch=6).mark is None


def test_a_lane_goes_as_far_as_it_is_told() -> None:
    """A batch that lies across that place is taken apart there, and its rest is read when the lane may go further."""
    lane = replace(LANE, is_mapped=True, has_allowance=True)
    run = LaneRun(lane, Writer(abandoned=False, is_mapped=True))
    run.transit = Transit(Cursor(100, 0, 0))
    run.intake.read_from(100)
    assert run.intake.is_at_end
    told = Allowance(lane.source_topic, lane.source_topic_id, lane.partition, 100, 115)
    assert not run.allow({run.source: told._replace(topic_id=uuid.uuid4())}), "of a topic that was created anew"
    assert run.allow({run.source: told})
    assert not run.allow({run.source: told._replace(end=110)}), "nothing is taken back"
    for offset in (100, 110):
        read(run, offset, leader_epoch=7)
    assert [(piece.batch.base_offset, piece.batch.offset_end) for piece in run.intake.pending] == [(0, 10), (10, 15)]
    assert (run.intake.read_offset, run.intake.is_at_end, run.transit.source_offset(15)) == (115, True, 115)
    read(run, 110, leader_epoch=7)
    assert len(run.intake.pending) == 2
    assert run.allow({run.source: told._replace(end=300)})
    read(run, 110, leader_epoch=7)
    assert [piece.batch.offset_end for piece in run.intake.pending] == [10, 15, 20]
    assert [run.transit.source_offset(ordinal) for ordinal in (0, 14, 15, 19)] == [100, 114, 115, 119]


def test_a_lane_with_an_end_is_not_told_to_go_further() -> None:
    """What lies behind it another leaf gets."""
    run = LaneRun(replace(LANE, is_mapped=True, end_offset=103), Writer(abandoned=False, is_mapped=True))
    told = Allowance(run.lane.source_topic, run.lane.source_topic_id, run.lane.partition, 100, 900)
    assert (run.allow({run.source: told}), run.intake.read_end) == (False, 103)
    assert LaneRun(LANE, Writer(abandoned=False)).intake.read_end == NO_END


def test_nothing_behind_the_end_of_a_lane_is_taken() -> None:
    """Not even where an answer holds more."""
    run = LaneRun(replace(LANE, end_offset=110), Writer(abandoned=False))
    run.intake.read_from(100)
    batches = [one(stored(offset, [PLAIN] * 10, leader_epoch=7)) for offset in (100, 110)]
    assert run.offer(Piece(batch, True, False) for batch in batches) == len(batches[0].view)
    assert ([piece.batch for piece in run.intake.pending], run.intake.read_offset) == (batches[:1], 110)


def test_a_source_that_is_silent_is_reported_as_silent_since_it_was_heard() -> None:
    """By the wall clock, and the same moment each time: a report that changes is told anew. Once heard, it is silent no
    more.
    """
    run = run_at(5)
    assert run.report().heard_ms == -1
    run.source_log.heard_at -= 60.0
    since_ms = run.report().heard_ms
    assert abs(time.time() * 1000 - 60_000 - since_ms) < 5_000
    assert run.report().heard_ms == since_ms
    run.source_log.heard_at += 60.0
    assert run.report().heard_ms == -1
