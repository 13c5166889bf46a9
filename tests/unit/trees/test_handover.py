"""What a program that runs a distributor does about a choice of leaf: follow it, or stay away."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.memory.declared import Declared
from isthmus.memory.switching import DistributorTarget, wish_for_leaf
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.text.plain import plain
from isthmus.model.trees.switching import TargetChoice
from isthmus.model.trees.tree import Distributor
from isthmus.run.following import change_of
from isthmus.trees.handover import HandoverLoop

TEXT = (
    "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'},"
    " d: {bootstrap_servers: 'h:4'}}\n"
    "trees: [{name: t, clusters: [[a, b], [c, d]], topics: [x]}]\n"
)
WRITTEN = config.parse(TEXT)
LEAVES = ("c", "d")


def switched(choice: TargetChoice) -> Configuration:
    return Declared(choices={("a", "t.a.2"): choice}).over(WRITTEN)


def link(configuration: Configuration, name: str = "t.a.2") -> Link:
    return configuration.link(name)


def distributor() -> Distributor:
    return WRITTEN.trees[0].tree.by_itself.distributor("a", 2, "d")


def test_a_wish_has_the_link_hold_and_know_the_way() -> None:
    """It keeps its target while it goes over, and all that runs beside it goes on as it was."""
    configuration = switched(TargetChoice(target="c", wanted="d"))
    change = change_of(link(WRITTEN), link(configuration))
    assert (change.waiting, change.followed) == ((), ("distributor",)), "without being started anew"
    role = change.link.distributor
    assert role is not None
    assert role.going is not None
    assert (role.going.to, [each.link for each in role.going.onward]) == ("d", ["t.c.1"])
    assert HandoverLoop().interval_s(change.link) is not None
    assert HandoverLoop().interval_s(link(WRITTEN)) is None
    others = [each for each in WRITTEN.links if each.name != "t.a.2"]
    assert [each for each in configuration.links if each.name != "t.a.2"] == others


def test_a_link_that_has_gone_over_is_started_anew() -> None:
    """At the other leaf; what it did at the former one is no reason to refuse it."""
    configuration = switched(TargetChoice(target="d", wanted="d", former=("c",)))
    change = change_of(link(WRITTEN), link(configuration))
    assert "target" in change.waiting
    role = link(configuration).distributor
    assert role is not None
    assert {cluster.alias: set(names) for cluster, names in role.others} == {
        "b": {"t.a.1"},
        "c": {"t.a.2"},
        "d": {"t.a.2"},
    }
    assert configuration.trees[0].tree.hops("a") == {"a": 0, "b": 1, "d": 1, "c": 2}


def test_another_tree_of_the_file_wins() -> None:
    """What was chosen for a subtree that the file does not have any more says nothing, and no other cluster decides."""
    assert switched(TargetChoice(target="e", wanted="e")).links == WRITTEN.links
    elsewhere = Declared(choices={("b", "t.a.2"): TargetChoice(target="d", wanted="d")})
    assert elsewhere.over(WRITTEN).links == WRITTEN.links


def test_what_becomes_of_a_wish() -> None:
    """The same wish twice changes nothing, and the present target takes one back."""
    each = distributor()
    assert wish_for_leaf(each, "c", None) is None
    first = wish_for_leaf(each, "d", None)
    assert first == TargetChoice(target="c", wanted="d")
    assert wish_for_leaf(each, "d", first) is None
    assert wish_for_leaf(each, "c", first) == first.ask_for("c")
    stale = TargetChoice(target="e", wanted="e", serial=5)
    assert wish_for_leaf(each, "d", stale) == TargetChoice(target="c", wanted="d", serial=6)
    assert plain(DistributorTarget.of(each, None))["target"] == "c"


@pytest.mark.parametrize(
    ("cluster", "level", "leaf", "told"),
    [
        ("e", 2, "c", "tree t has no cluster e"),
        ("a", 3, "c", "a distributes at no level 3"),
        ("a", 2, "b", "b is no leaf that a can copy to at level 2"),
    ],
)
def test_what_is_no_distributor_or_leaf(cluster: str, level: int, leaf: str, told: str) -> None:
    """It is refused with what there is."""
    with pytest.raises(ConfigError, match=told):
        WRITTEN.trees[0].tree.distributor(cluster, level, leaf)
