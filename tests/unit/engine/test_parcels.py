"""What a lane sends in one request: batches as they are, or joined where that is worth it."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.parcels import JOIN_UP_TO_BYTES, Parcel, behind, gathered, head
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import Writer
from isthmus.kafka.batches.batch import crc_ok
from isthmus.model.copyflags import distributor_producer_id
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from testing.records.stored import PLAIN, one, stored

PRODUCER = ProducerIdentity(producer_id=7, marker_producer_id=8)
RECORD = PLAIN._replace(value=bytes(200))
FAR = 50_000_000
"""So many bytes a request is worth whose answer takes a second."""


def lane_of(*counts: int, codec: int = 0, batch_bytes_max: int = 1 << 20) -> LaneRun:
    """A lane that holds batches of so many records."""
    lane = Lane(
        source_topic=SourceTopic("a"),
        source_topic_id=uuid.uuid4(),
        target_topic=TargetTopic("a"),
        target_topic_id=uuid.uuid4(),
        partition=0,
        batch_bytes_max=batch_bytes_max,
    )
    run = LaneRun(lane, Writer(abandoned=False))
    run.intake.begin_at(0, -1)
    run.writer.position = 0
    offset = 0
    for count in counts:
        run.offer(iter([Piece(one(stored(offset, [RECORD] * count, codec=codec)), is_plain=True, is_aborted=False)]))
        offset += count
    return run


def sent(run: LaneRun, *, worth_bytes: int, lanes: int = 1) -> list[Parcel]:
    """Everything the lane holds, parcel by parcel."""
    found = [head(run, PRODUCER, lanes=lanes, worth_bytes=worth_bytes)]
    while (following := behind(found[-1], PRODUCER, lanes=lanes, worth_bytes=worth_bytes)) is not None:
        found.append(following)
    return found


@given(
    counts=st.lists(st.integers(1, 80), min_size=1, max_size=12),
    codec=st.integers(0, 4),
    worth_bytes=st.integers(0, FAR),
    lanes=st.integers(1, 20),
)
def test_whatever_is_joined_the_records_stay(counts: list[int], codec: int, worth_bytes: int, lanes: int) -> None:
    """Parcels follow one another without a gap, carry every piece once, and number every record by its offset."""
    run = lane_of(*counts, codec=codec)

    parcels = sent(run, worth_bytes=worth_bytes, lanes=lanes)

    assert [p.pieces_end for p in parcels][-1] == sum(p.pieces for p in parcels) == len(counts)
    assert [r.offset for p in parcels for r in records_of(p.batch)] == list(range(sum(counts)))
    assert [p.sequence for p in parcels] == [p.batch.base_offset for p in parcels]
    assert {r.value for p in parcels for r in records_of(p.batch)} == {RECORD.value}


def test_what_a_distributor_copies_is_joined() -> None:
    """What others brought is left out first, so that small batches on both sides of it go as one: also one that came
    here by a higher level, as the copy has the flag of this one.
    """
    run, transit = lane_of(), Transit(Cursor(0, 0, 0))
    batches = [one(stored(offset, [RECORD] * 3)) for offset in (0, 3, 6)]
    batches[1] = batches[1]._replace(producer_id=distributor_producer_id(1, 5))
    batches[2] = batches[2]._replace(producer_id=distributor_producer_id(3, 9))
    taken = [transit.take(Piece(each, True, False), bytes_max=1 << 20, level=2) for each in batches]
    run.offer(piece for piece in taken if piece is not None)

    (parcel,) = sent(run, worth_bytes=0)

    assert (parcel.pieces, [record.offset for record in records_of(parcel.batch)]) == (2, list(range(6)))
    assert [transit.source_offset(ordinal) for ordinal in range(6)] == [0, 1, 2, 6, 7, 8]


def test_what_is_damaged_is_not_joined() -> None:
    """It goes by itself with the checksum it had, for the target to refuse; so does what it would be joined to."""
    run = lane_of(3, 3, 3, 3)
    spoilt = bytearray(run.intake.pending[1].batch.view)
    spoilt[-5] ^= 1
    run.intake.pending[1] = Piece(one(bytes(spoilt)), is_plain=True, is_aborted=False)

    parcels = sent(run, worth_bytes=FAR)

    assert [p.pieces for p in parcels] == [1, 1, 2]
    assert [crc_ok(one(p.append.header + bytes(p.append.records))) for p in parcels] == [True, False, True]


def test_near_targets_get_ordinary_batches_as_they_are() -> None:
    """Where an answer comes soon nothing is joined but batches of few records."""
    ordinary, small = lane_of(40, 40, 40), lane_of(3, 3, 3)
    assert [p.pieces for p in sent(ordinary, worth_bytes=0)] == [1, 1, 1]
    assert [p.pieces for p in sent(small, worth_bytes=0)] == [3]


def test_far_targets_get_what_the_wait_is_worth() -> None:
    """Lanes share what a request is worth; gzip is worth less; half of what the topic takes is the limit."""
    counts = [40] * 60
    size = lane_of(40).intake.size_bytes

    def largest(run: LaneRun, *, worth_bytes: int, lanes: int = 1) -> int:
        return max(p.pieces for p in sent(run, worth_bytes=worth_bytes, lanes=lanes))

    assert largest(lane_of(*counts), worth_bytes=FAR) == min(JOIN_UP_TO_BYTES // size, 60)
    assert largest(lane_of(*counts), worth_bytes=40 * size) == 40
    assert largest(lane_of(*counts), worth_bytes=40 * size, lanes=4) == 10
    assert largest(lane_of(*counts, batch_bytes_max=20 * size), worth_bytes=FAR) == 10
    squeezed = lane_of(40, codec=1).intake.size_bytes
    assert largest(lane_of(*counts, codec=1), worth_bytes=40 * squeezed) == 5


def test_records_of_one_transaction_go_together() -> None:
    """Up to the first batch of anybody else, or of none: they have another producer at the target."""
    run = lane_of()
    for offset, producer in ((0, 5), (40, 5), (80, 6), (120, 5)):
        batch = one(stored(offset, [RECORD] * 40, producer_id=producer, transactional=True))
        run.offer(iter([Piece(batch, is_plain=False, is_aborted=False, is_undecided=True)]))

    batch, pieces = gathered(run)

    assert (batch.base_offset, batch.offset_end, pieces) == (0, 80, 2)
    run.intake.take(2)
    assert gathered(run)[1] == 1
