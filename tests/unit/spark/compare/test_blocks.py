"""Digests of blocks, held against comparing records one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, repeat
from typing import Any, Final, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.batches.batch import LOG_APPEND_TIME, Batch, scan
from isthmus.kafka.log.reading import OffsetRange, StoredBatch, modern
from isthmus.spark.compare.blocks import BLOCK_OFFSETS, Blocks, offsets_of
from testing.records.stored import PLAIN, Given, given_records, message_sets, stored

BEGIN: Final = BLOCK_OFFSETS - 5
"""So that a block ends amidst the records."""
CODECS: Final = 5
SOURCE, TARGET = "source", "target"


class Placed(NamedTuple):
    """A record in a log."""

    offset: int
    record: Given
    is_aborted: bool


class Cut(NamedTuple):
    """After how many records a batch ends, its codec, and whether an answer of the broker ends with it."""

    records: int
    codec: int
    ends_answer: bool


def answers(log: Sequence[Placed], cuts: Iterable[Cut]) -> list[list[StoredBatch]]:
    """The log in batches that are cut like this, as a broker would send them."""
    found: list[list[StoredBatch]] = [[]]
    rest = list(log)
    for cut in chain(cuts, repeat(Cut(len(log), 0, ends_answer=True))):
        if not rest:
            break
        # What a batch holds is aborted whole or not at all.
        _, alike = next(groupby(rest[: cut.records], key=lambda placed: placed.is_aborted))
        part = list(alike)
        rest = rest[len(part) :]
        base = part[0].offset
        deltas = [placed.offset - base for placed in part]
        data = stored(base, [placed.record for placed in part], codec=cut.codec, deltas=deltas)
        found[-1] += [StoredBatch(batch, part[0].is_aborted) for batch in scan(data)]
        if cut.ends_answer:
            found.append([])
    return found


def digests(found: Sequence[Sequence[StoredBatch]], span: OffsetRange, side: str = SOURCE) -> dict[int, bytes]:
    blocks = Blocks(side, span)
    rows = [row for answer in found for row in blocks.take(answer)]
    rows += blocks.rest()
    assert len({block for block, _ in rows}) == len(rows)
    return dict(rows)


def by_record(found: Sequence[Sequence[StoredBatch]], span: OffsetRange) -> dict[int, list[Any]]:
    """What aiokafka decodes of the records in the range, by block."""
    blocks: dict[int, list[Any]] = {}
    for batch, is_aborted in (item for answer in found for item in answer):
        for r in DefaultRecordBatch(bytes(batch.view)):
            if span.offset_begin <= r.offset < span.offset_end:
                told = (r.offset, r.timestamp, r.key, r.value, tuple(r.headers), is_aborted)
                blocks.setdefault(r.offset // BLOCK_OFFSETS, []).append(told)
    return blocks


@st.composite
def logs(draw: st.DrawFn) -> list[Placed]:
    """Records with holes between them."""
    offset = BEGIN
    log = []
    for record, hole, is_aborted in draw(st.lists(st.tuples(given_records, st.integers(0, 2), st.booleans()))):
        offset += hole
        log.append(Placed(offset, record, is_aborted))
        offset += 1
    return log


@st.composite
def changed(draw: st.DrawFn, log: list[Placed]) -> list[Placed]:
    """The log, or one in which a record is another, or missing."""
    if not log or draw(st.booleans()):
        return log
    at = draw(st.integers(0, len(log) - 1))
    instead = draw(st.none() | given_records | st.just(log[at].record._replace(key=b"")))
    middle = [] if instead is None else [log[at]._replace(record=instead)]
    return [*log[:at], *middle, *log[at + 1 :]]


cuts = st.lists(st.builds(Cut, st.integers(1, 9), st.integers(0, CODECS - 1), st.booleans()))


@given(st.data(), logs(), cuts, cuts, st.integers(BEGIN, BEGIN + 3), st.integers(BEGIN + 4, BEGIN + 99))
def test_blocks_are_alike_if_and_only_if_their_records_are(
    data: st.DataObject, log: list[Placed], here: list[Cut], there: list[Cut], begin: int, end: int
) -> None:
    """Whatever batches, codecs and answers they came in, at either side of a block's border, and within any range."""
    span = OffsetRange("orders", 0, begin, end)
    source, target = answers(log, here), answers(data.draw(changed(log)), there)
    expected_source, expected_target = by_record(source, span), by_record(target, span)

    found_source, found_target = digests(source, span), digests(target, span, TARGET)

    assert found_source.keys() == expected_source.keys()
    assert found_target.keys() == expected_target.keys()
    for block in found_source.keys() & found_target.keys():
        assert (found_source[block] == found_target[block]) == (expected_source[block] == expected_target[block])


WHOLE: Final = OffsetRange("orders", 0, 0, 100)


def of(*batches: Batch, is_aborted: bool = False, side: str = SOURCE) -> dict[int, bytes]:
    return digests([[StoredBatch(batch, is_aborted) for batch in batches]], WHOLE, side)


def only(data: bytes) -> Batch:
    return modern(next(scan(data)))


def test_the_stamp_of_the_broker_is_the_timestamp_of_every_record() -> None:
    """A batch of LogAppendTime equals one whose records carry that time themselves."""
    late = PLAIN._replace(timestamp=PLAIN.timestamp + 5)
    assert of(only(stored(0, [PLAIN, late], attributes=LOG_APPEND_TIME))) == of(only(stored(0, [late, late])))


def test_visibility_counts() -> None:
    """Records that were aborted differ from the same records committed."""
    batch = only(stored(0, [PLAIN]))
    assert of(batch) != of(batch, is_aborted=True)


def test_large_numbers() -> None:
    """Lengths and deltas of several bytes are read whole."""
    records = [PLAIN._replace(timestamp=t, value=b"v" * size) for t, size in ((0, 70_000), (1 << 41, 1), (7, 3 << 20))]
    apart = [only(stored(offset, [record])) for offset, record in enumerate(records)]
    assert of(only(stored(0, records))) == of(*apart)


def test_neighbouring_blocks_are_read_together() -> None:
    """Others are read by themselves."""
    size = BLOCK_OFFSETS
    assert list(offsets_of([])) == []
    assert list(offsets_of([0])) == [(0, size)]
    assert list(offsets_of([2, 3, 5])) == [(2 * size, 4 * size), (5 * size, 6 * size)]


def message_set() -> Batch:
    return only(message_sets(1, 0, [PLAIN], base_offset=3))


def damaged() -> Batch:
    data = stored(0, [PLAIN] * 3)
    return only(data[:61] + b"\xff" * (len(data) - 61))


def cut_short() -> Batch:
    return only(stored(0, [PLAIN] * 3))._replace(record_count=2)


@pytest.mark.parametrize("batch", [message_set(), damaged(), cut_short()], ids=["magic 1", "damaged", "other count"])
def test_what_is_not_read_in_columns_is_like_nothing(batch: Batch) -> None:
    """Not like itself at the other side, nor like what is beside it: it is left to the comparison of records."""
    here, there = of(batch), of(batch, side=TARGET)
    assert here.keys() == there.keys() == {0}
    assert here != there
