"""Which batches are aborted, which may travel as they are: as a consumer at read_committed sees them."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.pieces import passes, pieces
from isthmus.kafka.batches.batch import LOG_APPEND_TIME, Batch, scan
from testing.records.stored import PLAIN, marker, one, stored

LARGE = 1 << 20


class Log(NamedTuple):
    """Stored batches, and of each whether a consumer at read_committed must not see it."""

    batches: list[Batch]
    hidden: list[bool]
    aborted: list[tuple[tuple[int, int], int]]
    """Aborted transactions, each with the offset of its marker."""


PLAIN_PRODUCER = 0


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Interleaved transactions of two producers with the batches of a plain one; none is left open."""
    data, offset, hidden = b"", 0, list[bool]()
    begun: dict[int, list[int]] = {}
    offsets: list[int] = []
    aborted: list[tuple[tuple[int, int], int]] = []
    steps = draw(
        st.lists(st.tuples(st.sampled_from([PLAIN_PRODUCER, 1, 2]), st.booleans(), st.booleans()), max_size=30)
    )
    for producer, ends, commit in [*steps, (1, True, False), (2, True, False)]:
        offsets.append(offset)
        hidden.append(False)
        if ends and producer != PLAIN_PRODUCER:
            data += marker(offset, producer, commit=commit)
            indexes = begun.pop(producer, [])
            if indexes and not commit:
                aborted.append(((producer, offsets[indexes[0]]), offset))
                for index in indexes:
                    hidden[index] = True
            offset += 1
        else:
            transactional = producer != PLAIN_PRODUCER
            data += stored(offset, [PLAIN, PLAIN], producer_id=producer, transactional=transactional)
            if transactional:
                begun.setdefault(producer, []).append(len(hidden) - 1)
            offset += 2
    return Log(list(scan(data)), hidden, aborted)


@given(log=logs(), ends=st.tuples(st.integers(0, 40), st.integers(0, 40)), shuffle=st.randoms())
def test_aborted_batches_are_told_wherever_a_fetch_begins(
    log: Log, ends: tuple[int, int], shuffle: random.Random
) -> None:
    """Any stretch of a log, with the transactions that overlap it, gives the truth for each of its batches."""
    begin, end = sorted(min(index, len(log.batches)) for index in ends)
    stretch = log.batches[begin:end]
    if not stretch:
        return
    overlapping = [
        transaction
        for transaction, marker_offset in log.aborted
        if transaction[1] < stretch[-1].offset_end and marker_offset >= stretch[0].base_offset
    ]
    shuffle.shuffle(overlapping)

    found = list(pieces([(batch, 1) for batch in stretch], overlapping, bytes_max=LARGE))

    assert [piece.batch for piece in found] == stretch
    assert [piece.is_aborted for piece in found] == log.hidden[begin:end]
    for piece in found:
        assert piece.is_plain == (not piece.is_aborted and not piece.batch.is_control)


@pytest.mark.parametrize(
    ("batch", "bytes_max", "as_it_is"),
    [
        (stored(3, [PLAIN] * 3), LARGE, True),
        (stored(3, [PLAIN] * 3, transactional=True, producer_id=4), LARGE, True),
        (stored(3, [PLAIN] * 3), 100, False),
        (stored(3, [PLAIN]), 10, True),
        (stored(3, [PLAIN] * 2, deltas=[0, 5]), LARGE, False),
        (stored(3, [PLAIN] * 3, attributes=LOG_APPEND_TIME), LARGE, False),
        (marker(3, 4, commit=True), LARGE, False),
    ],
    ids=["plain", "transactional", "too large", "one record", "with holes", "stamped by the broker", "control"],
)
def test_what_travels_as_it_is(batch: bytes, bytes_max: int, as_it_is: bool) -> None:
    """Dense batches that fit do, and single records of any size; stamps of the broker and control records do not."""
    assert passes(one(batch), bytes_max) is as_it_is


@given(log=logs())
def test_what_is_in_transactions_is_told_where_they_are_whole(log: Log) -> None:
    """Whichever way they end, and though nobody says so: it never travels as it is. Their ends are told as ever."""
    found = list(pieces(((batch, 1) for batch in log.batches), (), bytes_max=LARGE, is_whole=True))
    for piece in found:
        batch = piece.batch
        assert piece.is_undecided == (batch.is_transactional and not batch.is_control)
        assert piece.is_plain == (not batch.is_transactional and not batch.is_control)
        assert not piece.is_aborted
