"""What is told of a slice from both sides' batches."""

from __future__ import annotations

from typing import Final

from isthmus.kafka.batches.batch import scan
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.spark.compare.blocks import BLOCK_OFFSETS
from isthmus.spark.compare.tally import Pair, batch_totals, unlike_blocks
from testing.records.stored import PLAIN, ZSTD, marker, stored
from tests.unit.spark.logs import IS_EQUAL, batch, committed, logs

END: Final = 3 * BLOCK_OFFSETS


def pair(begin: int = 0, end: int = END, target_end: int = END) -> Pair:
    return Pair("east", OffsetRange("orders", 0, begin, end), "west", OffsetRange("orders", 0, begin, target_end))


def test_alike() -> None:
    """Raw copies are alike, whoever wrote them; control batches, and ranges that hold nothing, count in bytes only."""
    end = next(scan(marker(3, 9, commit=True)))
    source, target = batch(0, [PLAIN] * 3), next(scan(stored(0, [PLAIN] * 3, producer_id=7, leader_epoch=9)))

    told = batch_totals(logs(committed(source), committed(target, end)), pair())

    sizes = source.size_bytes, source.size_bytes + target.size_bytes + end.size_bytes
    assert told == (3, 3, *sizes, True, 0)
    assert batch_totals(logs([], []), pair()) == (0, 0, 0, 0, True, 0)


def test_what_consumers_can_tell_apart_is_not_alike() -> None:
    """Visibility, place, time and bytes count, and that a batch is there once."""
    one = batch(0, [PLAIN] * 2)
    others = [
        [StoredBatch(one, is_aborted=True)],
        committed(batch(1, [PLAIN] * 2)),
        committed(batch(0, [PLAIN._replace(timestamp=PLAIN.timestamp + 1)] * 2)),
        committed(batch(0, [PLAIN, PLAIN._replace(value=b"other")])),
        committed(one, one),
        [],
    ]
    for other in others:
        assert not batch_totals(logs(committed(one), other), pair())[IS_EQUAL]


def test_aborted_batches_may_be_lacking() -> None:
    """Where the target has none of them they are left out; where it has one, or what is seen, that is compared."""
    plain, aborted = batch(0), StoredBatch(batch(1, [PLAIN] * 2), is_aborted=True)
    source = [*committed(plain), aborted]
    lacking = logs(source, committed(plain))

    assert batch_totals(lacking, pair(), may_lack_aborted=True)[IS_EQUAL:] == (True, 2)
    assert batch_totals(lacking, pair())[IS_EQUAL:] == (False, 0)
    for target in (
        [*committed(plain), StoredBatch(batch(1), is_aborted=True)],
        committed(plain, aborted.batch),
        [],
    ):
        assert not batch_totals(logs(source, target), pair(), may_lack_aborted=True)[IS_EQUAL]
    assert not batch_totals(logs(committed(plain), source), pair(), may_lack_aborted=True)[IS_EQUAL]


def test_a_batch_over_a_border_counts_where_it_ends() -> None:
    """With those of its records that lie there; one that ends behind the range is not of it."""
    over = committed(batch(0, [PLAIN] * 10), batch(10, [PLAIN] * 10))

    assert batch_totals(logs(over, over), pair(begin=4, end=15, target_end=12))[:2] == (6, 6)
    assert batch_totals(logs(over, over), pair(begin=4, end=20, target_end=20))[:2] == (16, 16)


def test_a_side_that_has_nothing_there_is_not_read() -> None:
    """What the source lacks is the target's alone."""
    nothing = OffsetRange("orders", 0, 5, 5)
    only = logs([], committed(batch(0)))
    assert batch_totals(only, Pair("gone", nothing, "west", OffsetRange("orders", 0, 0, END)))[:2] == (0, 1)
    assert unlike_blocks(only, Pair("gone", nothing, "west", OffsetRange("orders", 0, 0, END))) == [0]


def test_blocks_that_differ_are_told() -> None:
    """Whatever the batches are: of records that are alike none, of others those they are in."""
    records = [PLAIN._replace(key=b"%d" % n) for n in range(6)]
    places = 0, BLOCK_OFFSETS, 2 * BLOCK_OFFSETS
    source = committed(*(batch(place, records) for place in places))
    again = [part for place in places for part in (batch(place, records[:2], ZSTD), batch(place + 2, records[2:]))]
    changed = [*again[:-1], batch(places[-1] + 2, [*records[2:5], PLAIN])]

    assert unlike_blocks(logs(source, committed(*again)), pair()) == []
    assert unlike_blocks(logs(source, committed(*changed)), pair()) == [2]
    assert unlike_blocks(logs(source, committed(*again[:2])), pair()) == [1, 2]
