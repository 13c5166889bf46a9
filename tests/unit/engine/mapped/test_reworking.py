"""Records decoded for a transform, and encoded again."""

from __future__ import annotations

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.mapped.reworking import CALL_BYTES, CALL_RECORDS, Original, decode, encode_pieces, measure, portions
from isthmus.engine.state.stage import StagedPart


def record(offset: int, value: bytes = b"v", timestamp: int = 1) -> Record:
    return Record(offset, timestamp, None, value, [])


def waiting(begin: int, count: int, *, epoch: int = 0, codec: int = 0) -> StagedPart:
    found = encode([record(begin + n) for n in range(count)], codec)._replace(leader_epoch=epoch)
    return StagedPart(Piece(found, is_plain=True, is_aborted=False), begin + count)


def test_only_what_comes_next_is_decoded() -> None:
    """A chunk may begin before the lane's place, and a part may end before its batch."""
    parts = [waiting(8, 4, epoch=3), StagedPart(None, 14), waiting(14, 6, epoch=5, codec=4)._replace(offset_end=18)]
    found = decode(parts, 10)
    assert [(one.record.offset, one.epoch, one.codec) for one in found.origins] == [
        (10, 3, 0),
        (11, 3, 0),
        (14, 5, 4),
        (15, 5, 4),
        (16, 5, 4),
        (17, 5, 4),
    ]
    assert (found.offset_end, found.damaged) == (18, "")


def test_records_before_damaged_ones_count() -> None:
    """What follows a batch with a wrong checksum waits."""
    damaged = waiting(4, 2)
    assert damaged.piece is not None
    batch = damaged.piece.batch
    view = bytearray(batch.view)
    view[-1] ^= 1
    parts = [waiting(0, 4), damaged._replace(piece=damaged.piece._replace(batch=batch._replace(view=memoryview(view))))]
    found = decode([*parts, waiting(6, 2)], 0)
    assert (len(found.origins), found.offset_end) == (4, 4)
    assert found.damaged


def test_a_call_has_limits() -> None:
    """A record that is larger than all of them goes by itself."""
    small = [Original(record(n), 0, 0) for n in range(CALL_RECORDS + 1)]
    large = Original(record(7, bytes(CALL_BYTES + 1)), 0, 0)
    assert [len(each) for each in portions(small)] == [CALL_RECORDS, 1]
    assert [len(each) for each in portions([small[0], large, small[1]])] == [1, 1, 1]
    assert list(portions([])) == []


def test_pieces_are_dense_and_fit() -> None:
    """Records of another codec, and records without a timestamp, are in batches of their own."""
    records = (
        [(record(50, bytes(100)), 0)] * 5 + [(record(60), 4)] * 2 + [(record(70, timestamp=-1), 4), (record(9), 4)]
    )
    pieces = encode_pieces(records, 1000, 2 * measure(records[0][0]))
    assert [(piece.batch.base_offset, piece.batch.record_count, piece.batch.codec) for piece in pieces] == [
        (1000, 2, 0),
        (1002, 2, 0),
        (1004, 1, 0),
        (1005, 2, 4),
        (1007, 1, 4),
        (1008, 1, 4),
    ]
    assert all(piece.is_plain for piece in pieces)
    assert [one.timestamp for piece in pieces for one in records_of(piece.batch)][-2:] == [-1, 1]


def test_a_batch_is_no_larger_than_was_measured() -> None:
    """So no piece has to be split afterwards."""
    for one in (
        Record(0, 1 << 41, None, None, []),
        Record(0, 5, b"k" * 200, b"v" * 70_000, [("ü" * 90, b"x" * 300), ("", None)]),
    ):
        others = [one._replace(timestamp=one.timestamp + (n << 30)) for n in range(50)]
        (piece,) = encode_pieces([(each, 0) for each in others], 0, 1 << 30)
        assert len(piece.batch.view) <= sum(map(measure, others)) + 61
