"""Mapped lanes count what they append: from offsets to ordinals, and to offsets again; and are found again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.mapped.recount import Arrived, Held, Sourced, compared_anew, counted_anew, ordinal_of
from isthmus.engine.mapped.transit import Transit
from isthmus.kafka.batches.batch import CONTROL, SEQUENCE_MASK, Batch, spans
from isthmus.model.copyflags import distributor_producer_id
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange, OffsetMap

BYTES_MAX = 1 << 20


def batch(begin: int, count: int, *, end: int = -1) -> Batch:
    """Records at `[begin, begin + count)`, in a batch that reaches to `end`."""
    found = encode([Record(begin + n, 1000 + begin + n, None, b"%d" % (begin + n), []) for n in range(count)], 0)
    return found if end < 0 else found._replace(offset_end=end)


def control(offset: int) -> Batch:
    return batch(offset, 1)._replace(attributes=CONTROL)


def read(transit: Transit, *pieces: Batch | Piece) -> list[Piece]:
    given = (piece if isinstance(piece, Piece) else Piece(piece, True, False) for piece in pieces)
    taken = (transit.take(piece, bytes_max=BYTES_MAX) for piece in given)
    return [piece for piece in taken if piece is not None]


def sourced(records: Iterable[Record]) -> list[Sourced]:
    return [Sourced(record, -1) for record in records]


def test_pieces_follow_one_another_whatever_is_left_out() -> None:
    """Control records, aborted data and holes take no ordinal; what was copied before is cut off."""
    transit = Transit(Cursor(10, 100, 7))
    aborted = Piece(batch(20, 3), False, True)
    pieces = read(transit, batch(8, 6), control(14), batch(15, 5), aborted, batch(30, 2), batch(32, 4))
    assert [(piece.batch.base_offset, piece.batch.offset_end) for piece in pieces] == [
        (100, 104),
        (104, 109),
        (109, 111),
        (111, 115),
    ]
    assert [record.value for record in records_of(pieces[0].batch)] == [b"10", b"11", b"12", b"13"]
    assert [transit.source_offset(ordinal) for ordinal in (100, 103, 104, 108, 109, 114, 115)] == [
        10,
        13,
        15,
        19,
        30,
        35,
        36,
    ]


def test_a_run_of_tiny_batches_may_begin_before_the_lane() -> None:
    """Its batches have a checksum each; only records from the lane's place on are taken."""
    stored = [batch(8, 2), batch(10, 3), batch(13, 2)]
    whole = b"".join(one.base_offset.to_bytes(8) + bytes(one.view[8:]) for one in stored)
    ((run, count),) = spans(whole, tiny_bytes=1 << 20, span_bytes=1 << 20)
    transit = Transit(Cursor(11, 100, 7))
    (piece,) = read(transit, Piece(run, True, False, count))
    assert (count, piece.stored, piece.batch.base_offset) == (3, 1, 100)
    assert [record.value for record in records_of(piece.batch)] == [b"11", b"12", b"13", b"14"]
    assert [transit.source_offset(ordinal) for ordinal in (100, 103, 104)] == [11, 14, 15]


def test_what_has_arrived_is_in_the_map() -> None:
    """Answers may cover several stretches, or parts of one; the cursor is behind the last of them."""
    transit = Transit(Cursor(0, 0, 50))
    read(transit, *(one._replace(leader_epoch=2) for one in (batch(0, 4), control(4), batch(5, 4))))
    transit.appended(3, 50)
    assert transit.cursor == Cursor(3, 3, 53, 2)
    transit.appended(3, 60)
    assert transit.cursor == Cursor(7, 6, 63, 2)
    assert transit.ranges == [MappedRange(0, 50, 3), MappedRange(3, 60, 1), MappedRange(5, 61, 2)]
    read(transit, control(9))
    transit.passed(5)
    assert transit.cursor == Cursor(7, 6, 63, 2), "two records are on their way"
    transit.appended(2, 63)
    assert transit.cursor == Cursor(9, 8, 65, 2)
    read(transit, control(10))
    transit.passed(5)
    assert transit.cursor == Cursor(11, 8, 65, 5, left_out=2)
    assert transit.cursor.copied_to == 9
    read(transit, control(11))
    transit.passed(5)
    assert transit.cursor == Cursor(12, 8, 65, 5, left_out=3)
    transit.begin_segment()
    assert (transit.ordinal_begin, transit.ranges) == (8, [])


def test_what_was_read_ahead_is_not_what_was_copied() -> None:
    """The leader epoch of a place is that of what was copied: the source may lose what was only read, or left out."""
    transit = Transit(Cursor(0, 0, 0))
    read(transit, *(batch(2 * n, 2)._replace(leader_epoch=epoch) for n, epoch in enumerate((3, 3, 5))))
    transit.appended(3, 0)
    assert transit.cursor == Cursor(3, 3, 3, 3)
    transit.appended(2, 3)
    assert transit.cursor == Cursor(5, 5, 5, 5)
    transit.appended(1, 5)
    read(transit, control(6))
    transit.passed(7)
    transit.doubt(6)
    assert (transit.is_doubted, transit.lost_from, transit.cursor) == (True, 6, Cursor(7, 6, 6, 7, left_out=1))
    transit.believe(5)
    assert not transit.is_doubted
    assert transit.cursor == Cursor(6, 6, 6, 5, rewound=1), "else what was written before it would be taken for newer"


def test_what_a_transform_leaves_out_is_counted_once_it_is_passed() -> None:
    """What it leaves out itself and what it fails for are two numbers; those behind the last record come when nothing
    is on its way.
    """
    transit = Transit(Cursor(0, 0, 0, transform="one"))
    for offset in range(6):
        if offset in (1, 4):
            transit.take_changed(offset, 0)
        elif offset == 2:
            transit.skip()
        else:
            transit.filter_out()
    transit.pass_to(6)
    transit.passed(0)
    assert (transit.cursor.filtered, transit.cursor.skipped) == (0, 0)
    transit.appended(1, 0)
    assert (transit.cursor.filtered, transit.cursor.skipped) == (1, 0)
    transit.appended(1, 1)
    assert (transit.cursor.filtered, transit.cursor.skipped) == (2, 1)
    transit.passed(0)
    assert (transit.cursor.filtered, transit.cursor.skipped, transit.cursor.source_offset) == (3, 1, 6)


def test_a_cursor_takes_back_what_was_on_its_way() -> None:
    """After a look at the log reading begins at the cursor again, and what was found to have arrived is kept."""
    transit = Transit(Cursor(0, 0, 0))
    read(transit, batch(0, 9))
    transit.appended(2, 0)
    transit.resume(Cursor(5, 5, 8), [MappedRange(2, 5, 3)])
    (piece,) = read(transit, batch(0, 9))
    assert (piece.batch.base_offset, piece.batch.record_count) == (5, 4)
    assert transit.ranges == [MappedRange(0, 0, 2), MappedRange(2, 5, 3)]


def test_a_lane_goes_back_to_what_is_left_of_it() -> None:
    """What the target has lost is read and appended again, under the same ordinals; the map keeps what is left."""
    transit = Transit(Cursor(0, 10, 50, 2, first_ordinal=10))
    read(transit, *(one._replace(leader_epoch=2) for one in (batch(0, 4), control(4), batch(5, 4))))
    transit.appended(4, 50)
    transit.appended(4, 60)
    assert transit.placed_ranges == [(10, MappedRange(0, 50, 4)), (14, MappedRange(5, 60, 4))]

    transit.rewind(15, MappedRange(5, 60, 1))

    assert transit.cursor == Cursor(6, 15, 61, 2, first_ordinal=10, rewound=1)
    assert transit.ranges == [MappedRange(0, 50, 4), MappedRange(5, 60, 1)]
    (piece,) = read(transit, batch(5, 4))
    assert (piece.batch.base_offset, piece.batch.record_count) == (15, 3)
    transit.appended(3, 90)
    assert transit.ranges[-1] == MappedRange(6, 90, 3)
    # Of records that the target has deleted nobody knows where they were.
    read(transit, batch(9, 2))
    transit.appended(2, -1)
    assert transit.placed_ranges == []


def test_ordinals_are_known_by_their_sequences() -> None:
    """Of all that have a sequence it is the nearest, also where sequences begin again."""
    wrap = SEQUENCE_MASK + 1
    assert ordinal_of(7, 0) == 7
    assert ordinal_of(3, wrap + 5) == wrap + 3
    assert ordinal_of(3, wrap - 2) == wrap + 3
    assert ordinal_of(SEQUENCE_MASK, wrap + 1) == wrap - 1


def source_of(chance: random.Random) -> list[Batch]:
    """A source's log with control records and holes."""
    offset, batches = 0, []
    for _ in range(chance.randint(1, 12)):
        offset += chance.choice([0, 0, 1, 7])
        kind, count = chance.random(), chance.randint(1, 6)
        batches.append(control(offset) if kind < 0.2 else batch(offset, count, end=offset + count + (kind > 0.8)))
        offset = batches[-1].offset_end
    return batches


def copies(pieces: list[Piece], chance: random.Random, begin: int) -> Iterator[Held]:
    """The records as a target holds them, with those of others in between."""
    target = begin
    for piece in pieces:
        target += chance.choice([0, 0, 3])
        for record in records_of(piece.batch):
            yield Held(record.offset, record._replace(offset=target))
            target += 1


@given(st.randoms(use_true_random=False))
def test_a_lane_is_found_where_it_was_by_counting_and_by_comparing(chance: random.Random) -> None:
    """Whatever nobody wrote down follows from both logs, and the map is the one that was lost."""
    batches = source_of(chance)
    whole = Transit(Cursor(0, 0, 0))
    held = list(copies(read(whole, *batches), chance, 0))
    known, end = sorted((chance.randint(0, len(held)), chance.randint(0, len(held))))
    for one in held[:end]:
        whole.appended(1, one.record.offset)
    before = Transit(Cursor(0, 0, 0))
    read(before, *batches)
    for one in held[:known]:
        before.appended(1, one.record.offset)
    cursor = before.cursor

    again = Transit(cursor)
    read(again, *batches)
    counted = counted_anew(again, [Arrived(one.ordinal, one.record.offset, 1) for one in held[known:end]])
    there = [r for b in batches if not b.is_control for r in records_of(b) if r.offset >= cursor.source_offset]
    compared = compared_anew(cursor, held[known:end], sourced(there), deleted=0)

    wanted = OffsetMap.of(whole.ranges)
    assert OffsetMap.of([*before.ranges, *counted.ranges]) == wanted
    assert OffsetMap.of([*before.ranges, *compared.ranges]) == wanted
    assert counted.cursor == whole.cursor
    if end > known:
        assert (compared.cursor.ordinal, compared.cursor.target_offset) == (end, whole.cursor.target_offset)
        left = [record for record in there if record.offset >= compared.cursor.source_offset]
        assert len(left) == len(held) - end, "just what was not copied is copied next"


@given(st.randoms(use_true_random=False))
def test_a_source_that_lost_what_was_copied(chance: random.Random) -> None:
    """Whatever was compacted away or deleted at its beginning, what is copied next is just what was not copied."""
    records = [Record(n, n, b"k", b"%d" % n, []) for n in range(chance.randint(1, 30))]
    copied = chance.randint(0, len(records))
    held = [Held(n, record._replace(offset=100 + 2 * n)) for n, record in enumerate(records[:copied])]
    deleted = chance.choice([0, chance.randint(0, len(records))])
    there = [r for r in records[deleted:] if chance.random() < chance.choice([0.5, 1.0])]

    recount = compared_anew(Cursor(0, 0, 100), held, sourced(there), deleted=deleted)

    left = [record.offset for record in there if record.offset >= recount.cursor.source_offset]
    assert left == [record.offset for record in there if record.offset >= copied]
    assert all(one.target_begin == 100 + 2 * one.source_begin for one in recount.ranges)
    assert recount.cursor.ordinal == copied


@given(st.randoms(use_true_random=False))
def test_a_target_that_lost_of_what_was_copied_too(chance: random.Random) -> None:
    """Nothing that was not copied is passed over, and nothing is copied again up to the last record both still hold."""
    chances = chance.choice([0.5, 1.0]), chance.choice([0.5, 1.0])
    records = [Record(n, n, b"k", b"%d" % n, []) for n in range(chance.randint(1, 30))]
    copied = chance.randint(0, len(records))
    held = [Held(n, record._replace(offset=100 + n)) for n, record in enumerate(records[:copied])]
    held = [one for one in held if chance.random() < chances[0]]
    there = [record for record in records if chance.random() < chances[1]]

    recount = compared_anew(Cursor(0, 0, 100), held, sourced(there), deleted=0)

    left = {record.offset for record in there if record.offset >= recount.cursor.source_offset}
    assert {record.offset for record in there if record.offset >= copied} <= left
    both = {one.ordinal for one in held} & {record.offset for record in there}
    assert not left & set(range(max(both, default=-1) + 1))
    assert {one.source_begin for one in recount.ranges} == both
    assert all(one.target_begin == 100 + one.source_begin for one in recount.ranges)


def test_records_that_are_alike_are_rather_copied_twice_than_never() -> None:
    """Where the source deleted some of many that are the same, no more of what is left is passed over than must be."""
    there = [Record(n, 0, None, b"same", []) for n in range(3, 10)]
    held = [Held(n, Record(n, 0, None, b"same", [])) for n in range(5)]
    assert compared_anew(Cursor(0, 0, 0), held, sourced(there), deleted=3).cursor.source_offset == 5


def test_many_records_that_are_alike_are_compared_in_one_pass() -> None:
    """As many as a stretch holds: a loop for each would keep the leases of a whole task from what they have to do."""
    records = [Record(n, 0, None, b"same", []) for n in range(60_000)]
    held = [Held(n, record) for n, record in enumerate(records[:50_000])]
    assert (
        compared_anew(Cursor(0, 0, 0), held, sourced(records[30_000:]), deleted=30_000).cursor.source_offset == 50_000
    )
    apart = [one for one in held if one.ordinal % 2]
    assert compared_anew(Cursor(0, 0, 0), apart, sourced(records), deleted=0).cursor.source_offset == 25_000


def test_the_epoch_of_what_was_compared_is_that_of_the_source() -> None:
    """Where the last record is gone there nothing is known of it."""
    records = [Record(n, n, None, b"%d" % n, []) for n in range(5)]
    held = [Held(n, record._replace(offset=100 + n)) for n, record in enumerate(records)]
    there = [Sourced(record, 4) for record in records]
    assert compared_anew(Cursor(0, 0, 100, 1), held, there, deleted=0).cursor == Cursor(5, 5, 105, 4)
    assert compared_anew(Cursor(0, 0, 100, 1), held, there[:4], deleted=0).cursor == Cursor(5, 5, 105, -1)


def test_what_was_distributed_below_is_left_out() -> None:
    """Batches of distributors of the own level or a lower one take no ordinal; those of higher ones are copied."""
    transit = Transit(Cursor(0, 0, 0))
    producers = (distributor_producer_id(1, 5), 7, distributor_producer_id(2, 5), distributor_producer_id(3, 5), -1)
    taken = [
        transit.take(Piece(batch(2 * n, 2)._replace(producer_id=producer), True, False), bytes_max=BYTES_MAX, level=2)
        for n, producer in enumerate(producers)
    ]
    assert [None if piece is None else piece.batch.base_offset for piece in taken] == [None, 0, None, 2, 4]
    assert [transit.source_offset(ordinal) for ordinal in range(7)] == [2, 3, 6, 7, 8, 9, 10]
