"""The distribution tree of the seed's examples, bit for bit, and what it may not be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.copyflags import FlagsHeader, add_flag, is_to_copy
from isthmus.model.trees.tree import Tree, node_of

BALANCED = {"level": 3, "clusters": [["c1", "c2"], ["c3", "c4"]]}
UNBALANCED = [["c1", ["c2", "c3"]], ["c4", "c5"]]


def tree(written: Any, **fields: Any) -> Tree:
    return Tree(name="t", root=node_of(written), **fields)


def work(of: Tree, cluster: str, flags: int) -> list[tuple[int, str, int]]:
    """What the distributors of a cluster do with a message: level, target, flags of the copy."""
    return [
        (each.level, each.target, add_flag(flags, each.level))
        for each in of.distributors
        if each.cluster == cluster and is_to_copy(flags, each.level)
    ]


def test_four_clusters_step_by_step() -> None:
    """The sequence of a message that comes in at cluster 1, with the levels 1 and 3."""
    four = tree(BALANCED)
    assert [(each.level, each.bit, each.mask) for each in four.distributors if each.cluster == "c1"] == [
        (1, 0b0001, 0b0001),
        (3, 0b0100, 0b0111),
    ]
    assert work(four, "c1", 0b0000) == [(1, "c2", 0b0001), (3, "c3", 0b0100)]
    assert work(four, "c2", 0b0001) == []
    assert work(four, "c3", 0b0100) == [(1, "c4", 0b0101)]
    assert work(four, "c4", 0b0101) == []


def test_five_clusters_of_an_unbalanced_tree() -> None:
    """On every cluster a distributor runs for every level above it; the levels are 3, 2, 1 and 1."""
    five = tree(UNBALANCED)
    levels = {cluster: [d.level for d in five.distributors if d.cluster == cluster] for cluster in five.clusters}
    assert levels == {"c1": [2, 3], "c2": [1, 2, 3], "c3": [1, 2, 3], "c4": [1, 3], "c5": [1, 3]}
    assert work(five, "c1", 0) == [(2, "c2", 0b010), (3, "c4", 0b100)]
    assert work(five, "c2", 0b010) == [(1, "c3", 0b011)]
    assert work(five, "c3", 0b011) == []
    assert work(five, "c4", 0b100) == [(1, "c5", 0b101)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"parts": [1, 1]}, "parts .* do not number 2 parts"),
        ({"parts": [1]}, "do not number"),
        ({"parts": [0, 1]}, "do not number"),
        ({"parts": "ab"}, "do not number"),
        ({"parts": 7}, "do not number"),
        ({"parts": [1, 2, [3]]}, "do not number"),
        ({"parts": [1, 2], "pair": [[1], {}]}, "pair .* is not two of parts"),
        ({"parts": [1, 3], "pair": [1, 2]}, "pair .* is not two of parts"),
        ({"pair": [1]}, "do not number"),
    ],
)
def test_numbers_of_parts_are_checked(fields: Any, told: str) -> None:
    """Each part has one of its own."""
    with pytest.raises(ConfigError, match=told):
        node_of({"clusters": ["a", "b"], **fields})
    assert node_of({"clusters": ["a", "b"], "parts": [1, 2], "pair": [2, 1]}) == node_of(["a", "b"])


def test_levels_are_heights_unless_they_are_stated() -> None:
    """Four clusters get 1 and 2; a stated level is above those below, and the ones above follow it."""
    assert tree([["c1", "c2"], ["c3", "c4"]]).root.level == 2
    assert tree([{"level": 4, "clusters": ["c1", "c2"]}, "c3"]).root.level == 5


def test_work_grows_with_the_depth() -> None:
    """Eight clusters: 24 distributors in place of 56 links, and no message takes more than three hops, or more than one
    copy into the other half.
    """
    eight = tree([[["a", "b"], ["c", "d"]], [["e", "f"], ["g", "h"]]])
    assert (len(eight.distributors), eight.mesh_links) == (24, 56)
    for cluster in eight.clusters:
        assert sorted(eight.hops(cluster).values()) == [0, 1, 1, 1, 2, 2, 2, 3]
        made = {each for way in eight.ways(cluster).values() for each in way}
        assert [len([each for each in made if each.level == level]) for level in (1, 2, 3)] == [4, 2, 1]


def test_a_subtree_is_reached_by_another_leaf() -> None:
    """The target of a level can be any leaf of the subtree, and everything still arrives everywhere."""
    switched = tree(BALANCED, switched={("c1", 3, ("c3", "c4")): "c4"})
    assert work(switched, "c1", 0) == [(1, "c2", 0b001), (3, "c4", 0b100)]
    assert switched.hops("c1") == {"c1": 0, "c2": 1, "c4": 1, "c3": 2}
    with pytest.raises(ConfigError, match="c2 is no leaf of the subtree"):
        _ = tree(BALANCED, switched={("c1", 3, ("c3", "c4")): "c2"}).distributors


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("c1", "distributes nothing"),
        ([["c1"], "c2"], "fewer than two parts"),
        ([["c1", "c2"], ["c1", "c3"]], "cluster c1 is in the tree twice"),
        ({"level": 1, "clusters": [["c1", "c2"], "c3"]}, "level 1 is not above level 1"),
        ({"level": True, "clusters": ["c1", "c2"]}, "is not above level 0"),
        ({"clusters": ["c1", "c2"], "colour": 1}, "has no colour"),
        ({"level": 2}, "has no clusters"),
        ([["c1", 7], "c2"], "7 is no node"),
    ],
)
def test_what_is_no_tree(written: object, told: str) -> None:
    """It is refused with the reason."""
    with pytest.raises(ConfigError, match=told):
        node_of(written)


def test_levels_need_bits() -> None:
    """A header of one byte has eight levels."""
    with pytest.raises(ConfigError, match=r"level 9 has no bit in a header of 1 bytes"):
        tree({"level": 9, "clusters": ["c1", "c2"]})
    assert tree({"level": 9, "clusters": ["c1", "c2"]}, header=FlagsHeader(width_bytes=2)).root.level == 9


HEADERS = st.lists(st.tuples(st.sampled_from(["copy-flags", "trace"]), st.none() | st.binary(max_size=3)), max_size=4)


@given(HEADERS, st.integers(0, 255))
def test_other_headers_stay(headers: list[tuple[str, bytes | None]], flags: int) -> None:
    """What is written is read again, whatever was there, and no header of anybody else is touched."""
    header = FlagsHeader()
    after = header.write_flags(headers, flags)
    assert header.read(after) == (flags, False)
    assert [each for each in after if each[0] == "trace"] == [each for each in headers if each[0] == "trace"]


@pytest.mark.parametrize("value", [[b"\x01\x02"], [b""], [None], [b"\x01", b"\x01"]])
def test_a_header_that_says_nothing_counts_as_absent(value: list[bytes | None]) -> None:
    """Another width, no value, or a second one: no flag is set, and it is counted."""
    assert FlagsHeader().read([("copy-flags", each) for each in value]) == (0, True)
    assert FlagsHeader().read([]) == (0, False)


@given(flags=st.integers(0, 2**16 - 1), level=st.integers(1, 16))
def test_the_lowest_flag_alone_decides(flags: int, level: int) -> None:
    """A distributor decides by the lowest flag alone, and the lowest flag of its copy is its own."""
    lowest = flags & -flags

    assert is_to_copy(lowest, level) == is_to_copy(flags, level)
    if is_to_copy(flags, level):
        copy = add_flag(flags, level)
        assert copy & -copy == 1 << (level - 1)
