"""Copy flags in headers: what a distributor copies, and what it writes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.mapped.flagging import flagged
from isthmus.engine.mapped.transit import Transit
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch
from isthmus.model.copyflags import FlagsHeader, bit, mask
from isthmus.model.offsets import Cursor
from testing.values.looks import lane_of

HEADER = FlagsHeader(name="f", width_bytes=1)


@given(st.lists(st.integers(0, 255)), st.integers(1, 8))
def test_what_lower_levels_have_seen_to_is_left_out(found: list[int], level: int) -> None:
    """All else is copied in its order, with the own bit added and nothing else changed."""
    records = [
        Record(offset, 1, b"k", b"v", [("a", b"1"), ("f", bytes([flags])), ("b", None)])
        for offset, flags in enumerate(found)
    ]
    copies = flagged(records, level, HEADER).records
    assert [copy.offset for copy in copies] == [n for n, flags in enumerate(found) if not flags & mask(level)]
    for copy in copies:
        assert copy.headers == [("a", b"1"), ("b", None), ("f", bytes([found[copy.offset] | bit(level)]))]
        assert (copy.key, copy.value, copy.timestamp) == (b"k", b"v", 1)


SEEN: tuple[list[bytes | None], ...] = ([], [b"\x00"], [b"\x01"], [b"\x00\x00"], [b"\x02", b"\x02"], [None])
headers = st.sampled_from(SEEN).map(lambda values: [("f", value) for value in values])


@given(st.lists(headers, min_size=1, max_size=30), st.lists(st.integers(1, 30)), st.sets(st.integers(0, 30)))
def test_headers_that_say_nothing_are_counted_once(
    found: list[list[tuple[str, bytes | None]]], cuts: list[int], crashes: set[int]
) -> None:
    """However records arrive, and however often they are read again: when all are there, each was counted once."""
    records = [Record(offset, 1, None, b"v", list(each)) for offset, each in enumerate(found)]
    wanted = sum(len(each) > 1 or any(value is None or len(value) > 1 for _, value in each) for each in found)
    transit = Transit(Cursor(0, 0, 0))
    ends = sorted({min(cut, len(records)) for cut in cuts} | {0, len(records)})
    copies = len(flagged(records, 1, HEADER).records)

    def read() -> None:
        for begin, end in pairwise(ends):
            if end > transit.cursor.source_offset:
                batch = encode(records[begin:end], 0)
                transit.take(Piece(batch, True, False), bytes_max=1 << 20, level=1, flags=HEADER)

    read()
    for ordinal in range(copies):
        if ordinal in crashes:
            transit.resume(transit.cursor)
            read()
        transit.appended(1, ordinal)
    assert (transit.cursor.ordinal, transit.cursor.flags_replaced) == (copies, wanted)


def broken(offset: int) -> Batch:
    """A batch whose records are no records, as a source delivers them from a damaged disk."""
    batch = encode([Record(offset, 1, None, b"v" * 60, [])], 0)
    view = bytes(batch.view[:HEADER_BYTES]) + b"\xff" * (len(batch.view) - HEADER_BYTES)
    return batch._replace(view=memoryview(view))


def test_what_cannot_be_decoded_is_not_passed_over() -> None:
    """What comes before it is copied, and then it is the next: nothing behind it goes on without it."""
    run = lane_of(level=1, flags=HEADER, is_mapped=True)
    run.transit = Transit(Cursor(0, 0, 0))
    run.intake.read_offset = 0
    whole = encode([Record(0, 1, None, b"v", [])], 0)
    size = run.offer(Piece(each, False, False) for each in (whole, broken(1)))
    assert (len(run.intake.pending), run.intake.read_offset, run.intake.size_bytes) == (1, 1, size)
    with pytest.raises(ValueError, match="the checksum of the batch at offset 1 is wrong"):
        run.offer(iter([Piece(broken(1), False, False)]))
    run.transit.appended(1, 0)
    assert run.transit.cursor.source_offset == 1
    run.transit.passed(0)
    assert run.transit.cursor.source_offset == 1
