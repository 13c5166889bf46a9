"""A tree that gets another cluster or loses one: what begins and ends, what stays where it is, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.model.text.plain import plain
from isthmus.model.trees.departure import to_go_over, uncertain
from isthmus.model.trees.reshaping import (
    Reshaping,
    TreeShape,
    add_cluster,
    apply_shape,
    become,
    check_empty,
    check_follows,
    done_before,
    last_with,
    move_cluster,
    remove_cluster,
    text_of,
)
from isthmus.model.trees.switching import LeafDoubt, TargetChoice
from isthmus.model.trees.tree import Tree, TreeSettings, node_of
from isthmus.model.trees.treeloss import TreeLoss

NONE: Mapping[str, TargetChoice] = {}


def tree(clusters: Any, **fields: Any) -> Tree:
    return Tree(name="t", root=node_of(clusters), **fields)


def names(found: Reshaping) -> tuple[list[str], list[str]]:
    return [f"{each.name} to {each.target}" for each in found.begun], [each.name for each in found.ended]


def test_a_cluster_above_all_others() -> None:
    """Each of the others copies to it what was produced there, and nobody else changes anything."""
    found = add_cluster(tree([["a", "b"], "c"]), NONE, "d", beside=None)
    assert plain(found.after.root) == {
        "level": 3,
        "clusters": [{"level": 2, "clusters": [{"level": 1, "clusters": ["a", "b"]}, "c"]}, "d"],
    }
    assert names(found) == (["t.a.3 to d", "t.b.3 to d", "t.c.3 to d", "t.d.3 to a"], [])
    assert found.pins == {}


def test_a_cluster_beside_another_one() -> None:
    """Its neighbour copies to it all that it has. Those whose place in the tree moves stay where they copied to."""
    found = add_cluster(tree({"level": 3, "clusters": ["a", ["b", "c"]]}), NONE, "x", beside="a")
    assert found.after.clusters == ("a", "x", "b", "c")
    assert names(found) == (["t.a.2 to x", "t.x.2 to a", "t.x.3 to c"], [])
    assert {name: pin.target for name, pin in found.pins.items()} == {"t.c.3": "a"}, "by itself it would be x"
    again = add_cluster(found.after, NONE, "y", beside="x")
    assert [each.level for each in again.after.distributors if each.cluster == "y"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("clusters", "beside", "fields", "told"),
    [
        (["a", "b"], "a", {}, "no level is free above 0 and below 1"),
        ({"level": 3, "clusters": ["a", "b"]}, "a", {"spent": (1,)}, "no level is free above 0 and below 1"),
        (
            {"level": 4, "clusters": ["a", "b"]},
            "a",
            {"spent": (2,), "level": 3},
            "level 3 is not free above 0 and below 2",
        ),
        (["a", "b"], None, {"level": 1}, "level 1 is not free above 1 and below 9"),
        ({"level": 8, "clusters": ["a", "b"]}, None, {}, "no level is free above 8 and below 9"),
    ],
)
def test_a_level_keeps_its_meaning(clusters: Any, beside: str | None, fields: Any, told: str) -> None:
    """A new node takes one that nothing was written under where it would count, and that has a bit; or none."""
    with pytest.raises(PlanRefused, match=told) as refused:
        add_cluster(tree(clusters), NONE, "x", beside=beside, **fields)
    assert "Levels keep their meaning while messages that have them are retained" in refused.value.hint


def test_what_is_no_change() -> None:
    """A cluster that is there, a neighbour that is not, the last but one, and one that is no part of it."""
    for cluster, beside, told in (("a", "b", "a is in tree t already"), ("x", "y", "tree t has no cluster y")):
        with pytest.raises(ConfigError, match=told):
            add_cluster(tree({"level": 3, "clusters": ["a", "b"]}), NONE, cluster, beside=beside)
    with pytest.raises(ConfigError, match="tree t has no cluster x"):
        remove_cluster(tree(["a", "b"]), NONE, "x")
    with pytest.raises(PlanRefused, match="without a only b would be left"):
        remove_cluster(tree(["a", "b"]), NONE, "a")


def test_a_cluster_leaves() -> None:
    """Its distributors end and those that copy to it alone; the level of its node is spent, all others stay."""
    four = tree([["a", "b"], ["c", "d"]])
    assert to_go_over(four, NONE, "d") == ((four.distributor("b", 2, "d"), "c"),), "c has nobody else than d"
    with pytest.raises(PlanRefused, match=r"t\.b\.2 copies to d, which its subtree would not have any more"):
        remove_cluster(four, NONE, "d")
    choices = {"t.b.2": TargetChoice(target="c", wanted="c", former=("d",))}
    assert to_go_over(four, choices, "d") == ()
    found = remove_cluster(four, choices, "d")
    assert plain(found.after.root) == {"level": 2, "clusters": [{"level": 1, "clusters": ["a", "b"]}, "c"]}
    assert names(found) == ([], ["t.c.1", "t.d.1", "t.d.2"])
    assert found.pins == {}
    assert found.spent == {1}, "wherever else it is in use"
    assert remove_cluster(tree({"level": 3, "clusters": ["a", ["b", "c"]]}), NONE, "c").spent == {1}


def test_who_lacks_something_keeps_a_cluster_from_leaving() -> None:
    """The cluster itself, a leaf that it has left by force, as nobody else has what that lacks; and nobody goes over to
    a leaf that is in doubt as long as there is another one.
    """
    four = tree([["a", "b"], ["c", "d"]])
    left = TargetChoice(target="d", wanted="d", doubts=(LeafDoubt(leaf="c", lanes=()),))
    assert uncertain(four, NONE, "d") is None
    assert uncertain(four, {"t.a.2": left}, "c") == ("c", "t.a.2"), "it passes on what it lacks"
    assert uncertain(four, {"t.a.2": left}, "a") == ("c", "t.a.2"), "it alone has what c lacks"
    assert uncertain(four, {"t.a.2": left}, "b") is None
    assert uncertain(four, {"t.a.2": left}, "d") == ("c", "t.a.2"), "there is no other leaf to go over to"
    six = tree([["a", "b"], ["c", "d", "e"]])
    assert uncertain(six, {"t.a.2": left}, "d") is None
    assert to_go_over(six, {"t.a.2": left}, "d") == (
        (six.distributor("a", 2, "d"), "e"),
        (six.distributor("b", 2, "d"), "c"),
    )


def test_nobody_has_for_a_newcomer_what_has_left() -> None:
    """Above all others each gives what was produced on itself; a neighbour gives all that it has."""
    left = tree({"level": 3, "clusters": ["a", "b"]})
    with pytest.raises(
        PlanRefused, match="a cluster has left tree t, and no cluster would copy to x what was produced"
    ):
        add_cluster(left, NONE, "x", beside=None, spent=(4,))
    accepted = add_cluster(left, NONE, "x", beside=None, spent=(4,), without_left=True)
    assert accepted.after.root.level == 5, "nor is a level used again"
    assert add_cluster(left, NONE, "x", beside="a", spent=(4,)).after.clusters == ("a", "x", "b")
    smaller = remove_cluster(tree(["a", "b", "c", "d"]), NONE, "d")
    assert smaller.spent == frozenset([1]), "also where its node has others"
    with pytest.raises(PlanRefused, match="a cluster has left tree t"):
        add_cluster(smaller.after, NONE, "x", beside=None, spent=smaller.spent)


def test_what_came_into_a_node_by_two_ways_has_no_order_for_one_more_part() -> None:
    """Each of its clusters copies what came in by it, and none waits for another; a neighbour has all in order."""
    before = tree([["a", "b"], ["c", "d"]])
    choices = {"t.c.2": TargetChoice(target="b", wanted="b", former=("a",))}
    with pytest.raises(PlanRefused, match=r"t\.c\.2 copied to a before it went over to b: x could get"):
        add_cluster(before, choices, "x", among="a")
    assert add_cluster(before, choices, "x", among="c").after.clusters == ("a", "b", "c", "d", "x"), (
        "what c itself wrote"
    )
    spread = tree({"level": 4, "clusters": [["a", "b"], ["c", "d"]]})
    within = {"t.c.4": TargetChoice(target="b", wanted="b", former=("a",))}
    assert add_cluster(spread, within, "x", among="a", level=4).after.clusters == ("a", "b", "c", "d", "x")
    pinned = {"t.c.2": TargetChoice(target="b", wanted="b")}
    assert add_cluster(before, pinned, "x", among="a").after.clusters == ("a", "b", "x", "c", "d")


def test_who_goes_over_has_to_arrive_first() -> None:
    """Where a distributor copies to is not known for certain before."""
    choices = {"t.a.2": TargetChoice(target="c", wanted="d")}
    with pytest.raises(PlanRefused, match=r"t\.a\.2 goes over to d"):
        add_cluster(tree([["a", "b"], ["c", "d"]]), choices, "x", beside=None)


def test_parts_of_a_node_come_and_leave() -> None:
    """All others keep their numbers, by which distributors are named, and the two that had none have none."""
    three = add_cluster(tree([["a", "b"], ["c", "d"]]), NONE, "x", among="b")
    assert names(three) == (["t.a.1.3 to x", "t.b.1.3 to x", "t.x.1.1 to a", "t.x.1.2 to b", "t.x.2 to c"], [])
    assert plain(three.after.root)["clusters"][0] == {
        "level": 1,
        "clusters": ["a", "b", "x"],
        "parts": [1, 2, 3],
        "pair": [1, 2],
    }
    assert node_of(plain(three.after.root)) == three.after.root
    above = add_cluster(three.after, NONE, "y", among="b", level=2)
    assert above.after.clusters == ("a", "b", "x", "c", "d", "y")
    assert names(above)[0][:2] == ["t.a.2.3 to y", "t.b.2.3 to y"]
    # Whoever copied to it goes over first.
    left = remove_cluster(three.after, {"t.c.2": TargetChoice(target="b", wanted="b")}, "a")
    assert names(left) == ([], ["t.a.1", "t.a.1.3", "t.a.2", "t.b.1", "t.x.1.1"])
    assert plain(left.after.root)["clusters"][0] == {"level": 1, "clusters": ["b", "x"], "parts": [2, 3]}
    beside = add_cluster(tree({"level": 3, "clusters": ["a", "b", "c"]}), NONE, "x", beside="b")
    assert names(beside)[0] == ["t.b.2 to x", "t.x.2 to b", "t.x.3.1 to a", "t.x.3.3 to c"]
    with pytest.raises(ConfigError, match="a is in no node of level 3"):
        add_cluster(three.after, NONE, "y", among="a", level=3)
    with pytest.raises(PlanRefused, match="a cluster has left"):
        add_cluster(left.after, NONE, "y", among="b", spent=left.spent)


def test_the_file_wins_where_it_says_something_else() -> None:
    """A shape counts for the tree from which it came, and is what the file may say by now."""
    before, after = tree(["a", "b"]), tree([["a", "b"], "c"])
    shape = TreeShape(clusters=text_of(after.root), bases=(text_of(before.root),))
    settings = TreeSettings(tree=before)
    assert apply_shape(settings, shape, "abc") == (TreeSettings(tree=after), "")
    assert apply_shape(TreeSettings(tree=after), shape, "abc") == (TreeSettings(tree=after), "")
    assert apply_shape(settings, shape, "ab") == (settings, "tree t has cluster c by now, which this file has not")
    other = TreeSettings(tree=tree(["b", "a"]))
    found, why = apply_shape(other, shape, "abc")
    assert found == other
    assert "tree t is run as the file has it" in why


def test_a_cluster_goes_to_another_place() -> None:
    """It leaves one node and comes into another one, under a level that nothing was written under where it counts."""
    before = tree(
        {"level": 5, "clusters": [{"level": 3, "clusters": ["a", "b"]}, {"level": 3, "clusters": ["c", "d"]}]}
    )
    choices = {"t.b.5": TargetChoice(target="c", wanted="c")}
    found = move_cluster(before, choices, "d", beside="a")
    assert (found.before, plain(found.after.root)) == (
        before,
        {"level": 5, "clusters": [{"level": 3, "clusters": [{"level": 2, "clusters": ["a", "d"]}, "b"]}, "c"]},
    )
    assert names(found) == (
        ["t.a.2 to d", "t.d.2 to a", "t.d.3 to b", "t.d.5 to c"],
        ["t.c.3", "t.d.3", "t.d.5"],
    )
    assert found.spent == {3}
    with pytest.raises(PlanRefused, match="no level is free above 0 and below 1"):
        move_cluster(tree([["a", "b"], ["c", "d"]]), {"t.b.2": TargetChoice(target="c", wanted="c")}, "d", beside="a")
    with pytest.raises(ConfigError, match="t has no cluster d"):
        move_cluster(before, choices, "d", beside="d")
    shape = TreeShape(clusters=text_of(found.after.root), bases=('["a","b"]', text_of(before.root)))
    assert last_with(shape, "d") == before.root
    assert last_with(shape, "e") is None


def test_a_cluster_that_comes_back_has_none_of_its_topics() -> None:
    """Its distributors begin anew under other levels: all that it has would come to all others once more."""
    before = tree(
        {"level": 5, "clusters": [{"level": 3, "clusters": ["a", "b"]}, {"level": 3, "clusters": ["c", "d"]}]}
    )
    left = remove_cluster(before, {"t.a.5": TargetChoice(target="d", wanted="d")}, "c")
    shape = become(left, None)
    assert last_with(shape, "c") == before.root
    assert last_with(None, "c") is None
    check_empty("t", "c", ())
    with pytest.raises(GateNotMet, match="c is not in tree t any more, and has its topics still: x, y") as refused:
        check_empty("t", "c", ["y", "x"])
    assert "Delete them at c" in refused.value.hint


def test_a_change_that_was_cut_off_is_made_again() -> None:
    """The same call finds that the tree has become what it wants, and has the other clusters know; another call is
    another change, and so is the same one after others.
    """
    first = add_cluster(tree([["a", "b"], "c"]), NONE, "d")
    shape = become(first, None)
    assert done_before(first.after, shape, lambda before: add_cluster(before, NONE, "d")) == (first, shape)
    assert done_before(first.after, shape, lambda before: add_cluster(before, NONE, "d", beside="c")) is None
    assert done_before(first.before, shape, lambda before: add_cluster(before, NONE, "d")) is None, "the file won"
    assert done_before(first.after, None, lambda before: add_cluster(before, NONE, "d")) is None
    left = remove_cluster(first.after, NONE, "d")
    after = become(left, shape)
    assert done_before(left.after, after, lambda before: remove_cluster(before, NONE, "d", spent=after.spent)) == (
        left,
        after,
    )
    assert done_before(left.after, after, lambda before: remove_cluster(before, NONE, "c", spent=after.spent)) is None
    assert (after.serial, after.bases) == (2, (text_of(first.after.root),)), "as it was written it is what it is now"


def test_of_two_changes_at_the_same_time_one_is_refused() -> None:
    """Both were made of the same tree, so one of them would be lost without a word."""
    before = tree([["a", "b"], "c"])
    one, other = (become(add_cluster(before, NONE, name), None) for name in "de")
    assert check_follows("t", None, one)
    assert not check_follows("t", one, one), "a call that is made again"
    with pytest.raises(PlanRefused, match="tree t was changed meanwhile"):
        check_follows("t", one, other)
    newer = become(remove_cluster(tree([["a", "b"], "c"]), NONE, "b"), one)
    assert check_follows("t", one, newer)
    with pytest.raises(PlanRefused, match="tree t was changed meanwhile"):
        check_follows("t", newer, one)


def test_a_cluster_that_left_by_force_is_known_until_it_is_back() -> None:
    """Its level is spent as that of any other. What other clusters that are gone had chosen cannot be known: what they
    copied to the one that leaves keeps it in the tree no longer.
    """
    four = tree([["a", "b"], ["c", "d"]])
    choices = {"t.b.2": TargetChoice(target="d", wanted="d")}
    with pytest.raises(PlanRefused, match=r"t\.b\.2 copies to d"):
        remove_cluster(four, choices, "d")
    left = replace(remove_cluster(four, choices, "d", unheard=("b",)), loss=TreeLoss(unknown=("t.d.1",)))
    assert left.spent == frozenset({1})
    lost = plain(left)["lost"]
    assert lost is not None
    assert lost["unknown"] == ["t.d.1"]
    shape = become(left, None)
    assert (shape.gone, shape.spent) == (("d",), (1,))
    again = become(remove_cluster(left.after, NONE, "c", spent=shape.spent), shape)
    assert again.gone == ("d",), "whoever else leaves"
    back = add_cluster(left.after, {}, "d", beside=None, spent=shape.spent, without_left=True)
    assert become(back, shape).gone == ()
