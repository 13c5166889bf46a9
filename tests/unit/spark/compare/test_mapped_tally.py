"""What is told of a slice of a mapped partition, however both sides are batched and whoever else writes there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.batches.batch import scan
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.model.translation import MappedRange, OffsetMap
from isthmus.spark.compare.tally import Pair, batch_totals, unlike_blocks
from testing.records.stored import PLAIN, ZSTD, Given, marker, stored
from tests.unit.spark.logs import IS_EQUAL, batch, committed, logs

OURS: Final = [PLAIN._replace(key=b"%d" % n) for n in range(6 * (5 + 1))]
"""As many as there are offsets in the longest slice, markers counted."""
OTHERS: Final = PLAIN._replace(value=b"of others")


class Step(NamedTuple):
    """Some records of the source that follow one another, and how many of others come before their copy."""

    records: int
    is_aborted: bool
    others: int


steps = st.lists(st.builds(Step, st.integers(1, 5), st.booleans(), st.integers(0, 3)), max_size=6)
codecs = st.sampled_from([0, ZSTD])


def placed(records: dict[int, Given], sizes: Sequence[int], codec: int) -> list[StoredBatch]:
    """Records at their offsets, in batches of at most these sizes."""
    found: list[StoredBatch] = []
    left = list(sizes)
    for _, run in groupby(enumerate(sorted(records)), key=lambda pair: pair[1] - pair[0]):
        offsets = [offset for _, offset in run]
        while offsets:
            size = left.pop() if left else len(offsets)
            part, offsets = offsets[:size], offsets[size:]
            found += committed(batch(part[0], [records[offset] for offset in part], codec))
    return found


def logs_of(
    given: Sequence[Step], sizes: Sequence[int], codec: int
) -> tuple[Pair, list[StoredBatch], dict[int, Given]]:
    """A slice of a mapped partition: what the source has, and what the target has by offset."""
    source: list[StoredBatch] = []
    target: dict[int, Given] = {}
    ranges: list[MappedRange] = []
    end = target_end = 0
    for step in given:
        records = OURS[end : end + step.records]
        (one,) = scan(stored(end, records, producer_id=9, transactional=step.is_aborted))
        source.append(StoredBatch(one, step.is_aborted))
        if not step.is_aborted:
            target |= {target_end + n: OTHERS for n in range(step.others)}
            target_end += step.others
            ranges.append(MappedRange(end, target_end, step.records))
            target |= {target_end + n: record for n, record in enumerate(records)}
            target_end += step.records
        end += step.records
        if step.is_aborted:
            source += committed(next(scan(marker(end, 9, commit=False))))
            end += 1
    whole = OffsetMap.of(ranges).ranges
    target_span = OffsetRange("copy", 0, whole[0].target_begin if whole else 0, whole[-1].target_end if whole else 0)
    pair = Pair("east", OffsetRange("orders", 0, 0, end), "west", target_span, whole)
    return pair, source, target


@given(steps, st.lists(st.integers(1, 9)), codecs)
def test_copies_are_alike(given: list[Step], sizes: list[int], codec: int) -> None:
    """However they are batched, and what is aborted at the source is no matter of theirs."""
    pair, source, target = logs_of(given, sizes, codec)
    found = logs(source, placed(target, sizes, codec))
    assert unlike_blocks(found, pair) == []
    totals = batch_totals(found, pair)
    copied = sum(step.records for step in given if not step.is_aborted)
    assert totals[0] == copied
    assert totals[IS_EQUAL + 1] == sum(step.records for step in given if step.is_aborted)


@given(steps.filter(lambda given: any(not step.is_aborted for step in given)), st.lists(st.integers(1, 9)), st.data())
def test_faults_are_not_alike(given: list[Step], sizes: list[int], data: st.DataObject) -> None:
    """One record of ours changed, and only then: what others wrote may be anything."""
    pair, source, target = logs_of(given, sizes, 0)
    place = data.draw(st.sampled_from(sorted(target)))
    is_ours = any(one.target_begin <= place < one.target_end for one in pair.ranges or ())
    found = logs(source, placed({**target, place: PLAIN._replace(value=b"changed")}, sizes, 0))
    assert bool(unlike_blocks(found, pair)) == is_ours
    assert not (is_ours and batch_totals(found, pair)[IS_EQUAL])


def test_raw_copies_are_equal_as_bytes() -> None:
    """A batch that lies elsewhere but is the same needs no second look; joined batches, and others', do no harm."""
    source = committed(batch(0, OURS[:3]), batch(3, OURS[3:5]))
    there = committed(batch(7, OURS[:3]), batch(10, [OTHERS] * 4), batch(14, OURS[3:5]))
    ranges = (MappedRange(0, 7, 3), MappedRange(3, 14, 2))
    pair = Pair("east", OffsetRange("orders", 0, 0, 5), "west", OffsetRange("copy", 0, 7, 16), ranges)
    assert batch_totals(logs(source, there), pair)[IS_EQUAL]
    joined = committed(batch(7, OURS[:5]))
    one = pair._replace(target=OffsetRange("copy", 0, 7, 12), ranges=(MappedRange(0, 7, 5),))
    assert not batch_totals(logs(source, joined), one)[IS_EQUAL]
    assert unlike_blocks(logs(source, joined), one) == []


@pytest.mark.parametrize("is_missing_in_map", [True, False])
def test_records_in_no_range_are_missing(is_missing_in_map: bool) -> None:
    """Whatever the target holds: what no map names was not copied."""
    source = committed(batch(0, OURS[:4]), batch(4, OURS[4:6]))
    there = committed(batch(2, OURS[:4]), batch(6, OURS[4:6]))
    ranges = (MappedRange(0, 2, 4 if is_missing_in_map else 6),)
    pair = Pair(
        "east", OffsetRange("orders", 0, 0, 6), "west", OffsetRange("copy", 0, 2, ranges[-1].target_end), ranges
    )
    assert batch_totals(logs(source, there), pair)[IS_EQUAL] != is_missing_in_map
    assert bool(unlike_blocks(logs(source, there), pair)) == is_missing_in_map


def test_what_consumers_do_not_see_was_not_copied() -> None:
    """A record of ours that is aborted at the target is not there for them."""
    source = committed(batch(0, OURS[:2]))
    hidden = [StoredBatch(batch(5, OURS[:2]), is_aborted=True)]
    pair = Pair("east", OffsetRange("orders", 0, 0, 2), "west", OffsetRange("copy", 0, 5, 7), (MappedRange(0, 5, 2),))
    assert not batch_totals(logs(source, hidden), pair)[IS_EQUAL]
    assert unlike_blocks(logs(source, hidden), pair) == [0]
