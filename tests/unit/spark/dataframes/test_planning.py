"""How far the micro-batches of a stream read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka.log.reading import OffsetRange
from isthmus.spark.dataframes.planning import Frontier, LogSight, advance, shares, spans_between

A, B = ("a", 0), ("a", 1)
READ = Frontier({"a": "1"}, {A: 5, B: 5})
SIGHT = LogSight({"a": "1"}, frozenset({A, B}), {A: 0, B: 0}, {A: 9, B: 5})


def step(read: Frontier, sight: LogSight, *, offsets_max: int | None = None, fails_on_loss: bool = True) -> Frontier:
    return advance(read, sight, offsets_max=offsets_max, fails_on_loss=fails_on_loss)


def test_a_batch_reads_up_to_the_ends() -> None:
    """All that is new, and each partition in one range."""
    reached = step(READ, SIGHT)

    assert reached.offsets == {A: 9, B: 5}
    assert spans_between(READ, reached) == [OffsetRange("a", 0, 5, 9)]
    assert step(reached, SIGHT) == reached


@pytest.mark.parametrize(
    "sight",
    [
        LogSight({}, frozenset(), {}, {}),
        LogSight({"a": "1"}, frozenset({A, B}), {}, {A: 9}),
        LogSight({"a": "1"}, frozenset({A, B}), {A: 0, B: 0}, {}),
        LogSight({"a": "1"}, frozenset({A}), {A: 0}, {A: 3}),
    ],
)
def test_what_is_not_known_stays_where_it_is(sight: LogSight) -> None:
    """No topic, no beginning, no end, or one that lies before what was read: none of them proves anything."""
    assert step(READ, sight) == READ


def test_a_new_partition_is_placed_first() -> None:
    """At the beginning of its log: so the batch that reads it begins there when it is repeated, too."""
    found = replace(SIGHT, partitions=frozenset({A, B, ("b", 0)}), starts={**SIGHT.starts, ("b", 0): 3})
    found = replace(found, ids={"a": "1", "b": "2"}, ends={**SIGHT.ends, ("b", 0): 8})

    placed = step(READ, found)
    reached = step(placed, found)

    assert (placed.offsets["b", 0], reached.offsets["b", 0]) == (3, 8)
    assert [span.key for span in spans_between(READ, placed)] == [A]
    assert spans_between(placed, reached) == [OffsetRange("b", 0, 3, 8)]


def test_deleted_records_are_an_error_or_are_counted() -> None:
    """The error names the partition and what is lost; otherwise the checkpoint has the count."""
    found = replace(SIGHT, starts={A: 7, B: 0})

    with pytest.raises(ClusterError, match=r"records of a-0 \[5, 7\) were deleted before they were read, up to 2"):
        step(READ, found)
    reached = step(READ, found, fails_on_loss=False)
    assert (reached.offsets[A], reached.lost) == (9, {A: 2})
    assert step(reached, replace(found, starts={A: 12, B: 0}, ends={A: 12, B: 5}), fails_on_loss=False).lost == {A: 5}


def test_a_topic_that_was_created_again_is_an_error_or_begun_anew() -> None:
    """From the beginning of its log, once all its partitions have shown it."""
    again = LogSight({"a": "2"}, frozenset({A, B}), {A: 0, B: 0}, {A: 2, B: 1})

    with pytest.raises(ClusterError, match=r"topic a was deleted and created again.*a-0 from 5 on, a-1 from 5 on"):
        step(READ, again)
    assert step(READ, replace(again, starts={A: 0}), fails_on_loss=False) == READ
    begun = step(READ, again, fails_on_loss=False)
    assert (begun.ids, begun.offsets) == ({"a": "2"}, {A: 0, B: 0})
    assert spans_between(READ, begun) == []
    assert step(begun, again, fails_on_loss=False).offsets == {A: 2, B: 1}


@given(
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), st.integers(0, 1000)),
    st.integers(1, 2000) | st.none(),
)
def test_shares_are_within_the_limit_and_nobody_starves(
    available: dict[tuple[str, int], int], most: int | None
) -> None:
    """Every partition with records gets some, none more than it has, all together no more than allowed, or one each."""
    found = shares(available, most)

    waiting = [key for key, count in available.items() if count]
    assert all(1 <= found[key] <= available[key] for key in waiting)
    total = sum(found.values())
    assert (
        total == sum(available.values())
        if most is None
        else total == min(max(most, len(waiting)), sum(available.values()))
    )


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    """Equal frontiers are written alike, whatever the order in which they came about."""
    frontier = Frontier({"b": "2", "a": "1"}, {B: 7, ("b", 10): 1, ("b", 9): 2, A: 5}, {A: 3})
    text = json.dumps(frontier.as_dict())

    assert Frontier.parse(json.loads(text)) == frontier
    assert text == (
        '{"a": {"id": "1", "offsets": {"0": 5, "1": 7}, "lost": {"0": 3}}, '
        '"b": {"id": "2", "offsets": {"9": 2, "10": 1}}}'
    )


def test_a_checkpoint_of_sparks_own_source_is_continued() -> None:
    """It has no ids of topics: those that are found are taken."""
    read = Frontier.parse({"a": {"0": 5, "1": 5}})

    reached = step(read, SIGHT)

    assert (reached.ids, reached.offsets) == ({"a": "1"}, {A: 9, B: 5})
    assert spans_between(read, reached) == [OffsetRange("a", 0, 5, 9)]


def test_a_batch_of_sparks_own_source_is_repeated_with_its_new_partitions() -> None:
    """Spark's own source places none of them beforehand, but reads them from their very beginning."""
    begin, end = Frontier.parse({"a": {"0": 5}}), Frontier.parse({"a": {"0": 7, "1": 3}})

    assert spans_between(begin, end) == [OffsetRange("a", 0, 5, 7), OffsetRange("a", 1, 0, 3)]


def test_the_first_batch_is_repeated_from_where_it_began() -> None:
    """Spark keeps that nowhere: where a query would begin now may lie behind, and another topic may be there."""
    end = Frontier.parse(json.loads(json.dumps(step(READ, SIGHT).first_from(READ).as_dict())))

    for later in (Frontier({"a": "1"}, {A: 9, B: 5}), Frontier({"a": "2"}, {A: 0})):
        assert spans_between(later, end) == [OffsetRange("a", 0, 5, 9)]
    assert end == step(READ, SIGHT)
    assert "begins" not in step(end, replace(SIGHT, ends={A: 11, B: 5})).as_dict()["a"]


@pytest.mark.parametrize("document", [{"a": 5}, {"a": {"x": 5}}, {"a": {"offsets": [1]}}])
def test_the_checkpoint_of_another_source_is_refused(document: dict[str, object]) -> None:
    """With what it holds."""
    with pytest.raises(ConfigError, match="holds no offsets of topics"):
        Frontier.parse(document)
