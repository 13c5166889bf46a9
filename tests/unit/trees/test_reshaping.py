"""Trees that have become other ones: which of what the ledgers say is followed."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus import config
from isthmus.errors import GateNotMet, Unreachable
from isthmus.ledger.documents.kinds import (
    AllowanceDocument,
    SwitchDocument,
    TreeDocument,
    decode_document,
    encode_document,
    link_of,
)
from isthmus.memory.declarations import is_behind
from isthmus.memory.declared import Declared
from isthmus.model.configuration import Configuration
from isthmus.model.naming import SourceTopic
from isthmus.model.problem import Problem
from isthmus.model.trees.reshaping import TreeShape, add_cluster, become, remove_cluster, text_of
from isthmus.model.trees.switching import Allowance, LaneBegin, LeftAt, TargetChoice
from isthmus.run.following import change_of
from isthmus.trees.reshaping import check_left, pin_choice

TEXT = (
    "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'},"
    " d: {bootstrap_servers: 'h:4'}}\n"
    "trees: [{name: t, clusters: [[a, b], c], topics: [x]}]\n"
)
WRITTEN = config.parse(TEXT)
TREE = WRITTEN.trees[0].tree
GROWN = add_cluster(TREE, {}, "d", beside="c")
SHAPE = TreeShape(clusters=text_of(GROWN.after.root), bases=(text_of(TREE.root),))


def grown(configuration: Configuration = WRITTEN) -> Configuration:
    return Declared(shapes={"t": SHAPE}).over(configuration)


def test_a_tree_of_the_ledgers_is_followed() -> None:
    """What was there goes on without being started anew, and once it is followed it is so still at the next look."""
    before = {link.name: link for link in WRITTEN.links}
    now = grown()
    after = {link.name: link for link in now.links}
    assert sorted(after.keys() - before.keys()) == ["t.c.1", "t.d.1", "t.d.2"]
    assert before.keys() <= after.keys()
    assert all(change_of(before[name], after[name]).waiting == () for name in before if name != "t.b.2")
    assert grown(now) == now
    assert config.parse(TEXT.replace("[[a, b], c]", "[[a, b], [c, d]]")).trees == now.trees


def test_a_pin_holds_before_and_after() -> None:
    """So that there is no moment in which its distributor goes somewhere else, whichever is heard of first."""
    assert {name: pin.target for name, pin in GROWN.pins.items()} == {"t.b.2": "c"}
    known = {("b", "t.b.2"): GROWN.pins["t.b.2"]}
    for declared in (Declared(choices=known), Declared(choices=known, shapes={"t": SHAPE})):
        assert declared.over(WRITTEN).link("t.b.2").target.alias == "c"


def test_the_documents_survive_the_ledger() -> None:
    """As they were written, they are read; one is about a distributor, and the other about no link."""
    choice = TargetChoice(
        target="c", wanted="d", begins=(LaneBegin(SourceTopic("x"), uuid.UUID(int=4), 0, 7),), former=("d",)
    )
    allowance = Allowance(SourceTopic("x"), uuid.UUID(int=4), 0, 7, 9)
    for document in (
        SwitchDocument(
            link="t.a.2",
            choice=choice.ask_for("d", is_forced=True).leave([allowance], {(SourceTopic("x"), 0): LeftAt(8)}),
            since_ms=5,
        ),
        AllowanceDocument(link="t.a.2", target="c", lanes=(allowance,)),
        SwitchDocument(link="t.a.2", choice=choice, since_ms=5),
        TreeDocument(tree="t", shape=SHAPE, since_ms=5),
    ):
        assert decode_document(document.key, encode_document(document)) == document
    assert (link_of("switch/t.a.2"), link_of("tree/t")) == ("t.a.2", "")


def test_a_pin_takes_the_place_of_no_choice_that_was_made_meanwhile() -> None:
    """That says from where on a leaf gets what there is: without it everything would come once more."""
    pin = GROWN.pins["t.b.2"]
    assert pin_choice("t.b.2", pin, None) == pin
    assert pin_choice("t.b.2", pin, pin) is None
    over = TargetChoice(target="c", wanted="d").over([LaneBegin(SourceTopic("x"), uuid.UUID(int=4), 0, 7)])
    with pytest.raises(GateNotMet, match=r"another leaf was chosen for t\.b\.2 meanwhile"):
        pin_choice("t.b.2", pin, over)


def test_a_leaf_that_is_chosen_while_it_leaves_stays() -> None:
    """By another operator: its distributor would have no such leaf any more, and no other one knows where to begin.
    Whether it was chosen is not known where a cluster that is read does not answer.
    """
    tree = GROWN.after
    (name,) = (each.name for each in tree.distributors if each.cluster == "b" and len(each.leaves) > 1)
    elsewhere, there = TargetChoice(target="c", wanted="c"), {alias: f"id-{alias}" for alias in tree.clusters}
    check_left(Declared(ids=there, choices={("b", name): elsewhere}), tree, "d")
    away = {"b": Problem("b did not answer within 10 s", "Look at it.")}
    with pytest.raises(Unreachable, match="b did not answer"):
        check_left(Declared(ids=there, away=away, choices={("b", name): elsewhere}), tree, "d")
    for choice in (TargetChoice(target="d", wanted="d"), elsewhere.ask_for("d"), elsewhere.going_back("d")):
        with pytest.raises(GateNotMet, match=f"d was chosen for {name} meanwhile"):
            check_left(Declared(ids=there, choices={("b", name): choice}), tree, "d")


def test_a_cluster_that_did_not_hear_of_a_change_is_told() -> None:
    """Whoever made it may have been killed half-way; one that has left is told as well, and strangers are not."""
    newest = TreeDocument(tree="t", shape=SHAPE, since_ms=5)
    later = TreeDocument(tree="t", shape=replace(SHAPE, serial=2), since_ms=6)
    assert is_behind(newest, None, "d")
    assert is_behind(later, newest, "a")
    assert not is_behind(newest, newest, "a")
    assert not is_behind(newest, later, "a")
    assert not is_behind(newest, None, "e")
    left = remove_cluster(GROWN.after, GROWN.pins, "d")
    assert is_behind(TreeDocument(tree="t", shape=become(left, SHAPE), since_ms=7), newest, "d")


def test_a_cluster_that_left_by_force_and_answers_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once, by whoever runs the tree: what is produced there goes nowhere. As long as it is away nobody says so."""
    shapes = {"t": replace(SHAPE, gone=("e-of-test",))}
    Declared(shapes=shapes, ids={"e-of-test": "id"}, away={"e-of-test": Problem("it is away")}).tell_returned()
    assert not caplog.records
    for _ in range(2):
        Declared(shapes=shapes, ids={"e-of-test": "id"}).tell_returned()
    assert [record.getMessage() for record in caplog.records if "answers again" in record.getMessage()][1:] == []
    assert "e-of-test answers again, which has left tree t by force" in caplog.text
    assert decode_document(
        "tree/t", encode_document(TreeDocument(tree="t", shape=shapes["t"], since_ms=5))
    ) == TreeDocument(tree="t", shape=shapes["t"], since_ms=5)
