"""What waits for a transformer, and what was changed and may not be sent yet."""

from __future__ import annotations

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.state.intake import Intake, Usability
from isthmus.engine.state.stage import StagedPart, TransformStage
from isthmus.kafka.batches.batch import CONTROL
from testing.records.stored import PLAIN, one, stored


def piece(offset: int, count: int = 2) -> Piece:
    return Piece(one(stored(offset, [PLAIN] * count)), is_plain=True, is_aborted=False)


def intake_of(*pieces: Piece) -> Intake:
    """An intake with a stage, which has read these pieces; control batches are left out."""
    intake = Intake(1 << 40, stage=TransformStage())
    intake.read_from(0)
    intake.offer(iter(pieces), 0, lambda each: None if each.batch.attributes & CONTROL else each)
    return intake


def control(offset: int) -> Piece:
    return piece(offset, 1)._replace(batch=piece(offset, 1).batch._replace(attributes=CONTROL))


def test_what_is_left_out_takes_its_turn() -> None:
    """It passes when all before it is decided, and several in a row are one."""
    intake = intake_of(piece(0), control(2), control(3), piece(4))
    stage = intake.stage
    assert stage is not None
    assert [(part.records, part.offset_end) for part in stage.waiting] == [(2, 2), (0, 4), (2, 6)]
    assert (intake.has_waiting, bool(intake.pending), intake.read_offset) == (True, False, 6)


def test_a_chunk_has_a_limit_and_at_least_one_part() -> None:
    """A batch that is larger than the limit is changed by itself."""
    stage = intake_of(*(piece(2 * n) for n in range(4))).stage
    assert stage is not None
    sizes = []
    while (chunk := stage.next_chunk(bytes_max=1 << 20, records_max=5)) is not None:
        sizes.append(len(chunk.parts))
        stage.finish([])
    assert sizes == [2, 2]
    assert stage.taken_to == 8
    stage.put(piece(8, 9), 17)
    chunk = stage.next_chunk(bytes_max=1, records_max=1)
    assert chunk is not None
    assert chunk.parts == (StagedPart(chunk.parts[0].piece, 17),)


def test_room_is_that_of_what_was_read_then_of_what_became_of_it() -> None:
    """Whatever is dropped, all of it is released."""
    intake = intake_of(piece(0), piece(2), piece(4))
    stage, size = intake.stage, piece(0).batch.size_bytes
    assert stage is not None
    assert intake.size_bytes == 3 * size
    stage.next_chunk(bytes_max=1, records_max=9)
    intake.resize(stage.finish([piece(0, 1)]))
    assert intake.size_bytes == 2 * size + piece(0, 1).batch.size_bytes
    assert intake.drop_waiting() == 2 * size
    assert (intake.read_offset, stage.taken_to) == (2, 2)
    intake.release(1)
    assert (len(intake.pending), stage.is_empty) == (1, True)
    assert intake.restart(0, -1) == piece(0, 1).batch.size_bytes
    assert (intake.size_bytes, intake.has_waiting) == (0, False)


def test_what_was_read_before_a_restart_does_not_count() -> None:
    """Its chunk is of another generation."""
    intake = intake_of(piece(0))
    stage = intake.stage
    assert stage is not None
    chunk = stage.next_chunk(bytes_max=9, records_max=9)
    assert chunk is not None
    intake.restart(0, -1)
    assert chunk.generation != stage.generation
    assert (stage.is_empty, intake.size_bytes) == (True, 0)


def test_an_intake_that_was_cut_is_drained_once_all_is_decided() -> None:
    """Records may all be left out by the transform: then none is written last."""
    intake = intake_of(piece(0))
    stage = intake.stage
    assert stage is not None
    intake.cut()
    assert not intake.drain()
    stage.next_chunk(bytes_max=9, records_max=9)
    assert not intake.drain()
    intake.resize(stage.finish([]))
    assert intake.drain()
    assert intake.usability is Usability.WHOLE


def test_a_transformer_owes_an_answer_since_it_was_asked() -> None:
    """Whatever becomes of the lane meanwhile. How late it is is said in few steps, as each of them is logged."""
    stage = TransformStage()
    assert stage.delay_s(50.0) == 0
    stage.note_call(7, 100.0)
    stage.clear(0)
    assert (stage.delay_s(103.0), stage.delay_s(106.0), stage.asked_offset) == (0, 5, 7)
    assert {stage.delay_s(100.0 + late_s) for late_s in range(60, 600)} == {60}
    assert not stage.asked_for_letters
    stage.note_call(8, 105.0, for_letters=True)
    assert (stage.delay_s(107.0), stage.delay_s(9_000.0), stage.asked_for_letters) == (0, 3_600, True)
    stage.end()
    assert stage.delay_s(9_000.0) == 0
