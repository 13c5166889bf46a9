"""Copy flags in headers: what a distributor copies, and what it writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.lane.mapped.flagging import flagged
from isthmus.lane.rebatch import Record
from isthmus.model.copyflags import FlagsHeader, bit, mask

HEADER = FlagsHeader(name="f", width_bytes=1)


@given(st.lists(st.integers(0, 255)), st.integers(1, 8))
def test_what_lower_levels_have_seen_to_is_left_out(found: list[int], level: int) -> None:
    """All else is copied in its order, with the own bit added and nothing else changed."""
    records = [
        Record(offset, 1, b"k", b"v", [("a", b"1"), ("f", bytes([flags])), ("b", None)])
        for offset, flags in enumerate(found)
    ]
    copies = flagged(records, level, HEADER)
    assert [copy.offset for copy in copies] == [n for n, flags in enumerate(found) if not flags & mask(level)]
    for copy in copies:
        assert copy.headers == [("a", b"1"), ("b", None), ("f", bytes([found[copy.offset] | bit(level)]))]
        assert (copy.key, copy.value, copy.timestamp) == (b"k", b"v", 1)
