"""Producer ids of transactions that no coordinator knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.kafka.transactions import (
    MARKER_PRODUCERS,
    is_lone,
    lone_producer_id,
    marker_epoch,
    marker_producer_ids,
)

ids = st.integers(0, (1 << 63) - 1)


@given(ids, ids)
def test_lone_producers_are_told_apart(one: int, other: int) -> None:
    """They fit into 64 bits, stay what they are when mirrored again, and differ as the source's do."""
    lone = lone_producer_id(one)
    assert is_lone(lone)
    assert lone < 1 << 63
    assert lone_producer_id(lone) == lone
    if not is_lone(one) and not is_lone(other):
        assert (lone == lone_producer_id(other)) == (one == other)


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 48) - 1), st.integers(0, 100), st.integers(1, 100))
def test_markers_have_producers_of_their_own(one: int, other: int, offset: int, count: int) -> None:
    """One is the given one, the others are nobody's. It follows from the offset, whoever writes it, which one it is."""
    ids = marker_producer_ids(one, offset, count)
    assert len(set(ids)) == min(count, MARKER_PRODUCERS)
    others = {*ids} - {one}
    assert all(is_lone(producer_id) and producer_id < 1 << 63 for producer_id in others)
    assert lone_producer_id(other) not in others
    assert ids == [producer for at in range(offset, offset + count) for producer in marker_producer_ids(one, at, 1)]


@given(st.integers(0, 1 << 30), st.integers(-1, 1 << 30), st.floats(1.6e9, 3.7e9))
def test_marker_epochs_grow(before: int, told: int, now_s: float) -> None:
    """Whatever the clock says, and as an integer of 32 bits."""
    epoch = marker_epoch(before, told, now_s)
    assert max(before, told) < epoch < 1 << 31
    assert epoch < marker_epoch(epoch, told, 0.0)
