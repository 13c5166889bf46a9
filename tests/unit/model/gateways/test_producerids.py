"""Producer ids that no two clusters give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.gateways.producerids import (
    cluster_tag,
    is_tagged,
    same_producer,
    settled_producer_id,
    tagged_producer_id,
)
from isthmus.model.kafka.transactions import MARKER_PRODUCERS, is_lone, lone_producer_id, marker_producer_ids

IDS = st.integers(0, (1 << 40) - 1)


@given(IDS, st.text(min_size=1))
def test_a_marked_id_is_told_from_all_others(producer_id: int, cluster_id: str) -> None:
    """It is one that no cluster gives by itself and no link makes, and is marked once."""
    tag = cluster_tag(cluster_id)
    marked = tagged_producer_id(producer_id, tag)

    assert 0 < tag < 1 << 14
    assert marked & ((1 << 40) - 1) == producer_id
    assert is_tagged(marked)
    assert not is_tagged(producer_id)
    assert not is_lone(marked)
    assert not is_tagged(lone_producer_id(producer_id))
    assert tagged_producer_id(marked, 1) == marked
    assert tagged_producer_id(lone_producer_id(producer_id), tag) == lone_producer_id(producer_id)


def test_no_id_stays_none() -> None:
    """Where nothing was given, nothing is marked."""
    assert tagged_producer_id(-1, 77) == -1


@given(IDS, st.text(min_size=1))
def test_a_link_that_was_given_a_marked_id(producer_id: int, cluster_id: str) -> None:
    """The producers of its control records are as many as with any other id."""
    ids = marker_producer_ids(tagged_producer_id(producer_id, cluster_tag(cluster_id)), 0, MARKER_PRODUCERS)

    assert len(set(ids)) == MARKER_PRODUCERS
    assert all(map(is_lone, ids[1:]))


@given(IDS, st.text(min_size=1), st.integers(0, 2000), st.integers(0, 40))
def test_a_producer_that_comes_back_is_another_one(
    producer_id: int, cluster_id: str, given_at: int, moves: int
) -> None:
    """As clients move to and fro, a producer has an id at each cluster that it did not have there before, and is known
    by all of them; as long as it has not been there before it has its own.
    """
    own = tagged_producer_id(producer_id, cluster_tag(cluster_id), given_at)
    ids = [settled_producer_id(own, given_at + stay) for stay in range(moves + 1)]

    assert ids[:2] == [own] * len(ids[:2])
    for here in (ids[0::2], ids[1::2]):
        assert len(set(here)) == len(here)
    assert {same_producer(each) for each in ids} == {same_producer(own)}
    assert all(is_tagged(each) and not is_lone(each) for each in ids)
    assert settled_producer_id(producer_id, moves) == same_producer(producer_id) == producer_id
