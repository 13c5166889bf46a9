"""Producer ids of transactions that no coordinator knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.transactions import is_lone, lone_producer_id, marker_producer_ids

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


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 48) - 1), st.integers(1, 1 << 10))
def test_markers_have_producers_of_their_own(one: int, other: int, count: int) -> None:
    """The first is the given one; the others are nobody's: no coordinator's, and no mirrored transaction's."""
    first, *others = marker_producer_ids(one, count)
    assert first == one
    assert len({first, *others}) == count
    assert all(is_lone(producer_id) and producer_id < 1 << 63 for producer_id in others)
    assert lone_producer_id(other) not in others
