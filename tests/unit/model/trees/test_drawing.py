"""The drawing of a tree is whole, whatever its clusters are called."""

from __future__ import annotations

import xml.etree.ElementTree as xml

from isthmus.model.trees.drawing import svg_of
from isthmus.model.trees.tree import Tree, node_of

SVG = "{http://www.w3.org/2000/svg}"


def test_everything_is_drawn_once() -> None:
    """A box for each cluster and each node, an arrow for each distributor, and names as they are."""
    tree = Tree(name="<flights>", root=node_of([["a<b", ["c2", "c3"]], ["c4", "c&5"]]))
    root = xml.fromstring(svg_of(tree))  # noqa: S314  # we have just written it
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert sorted(str(text) for text in texts if text in tree.clusters) == sorted(tree.clusters)
    assert sorted(str(text) for text in texts if text not in tree.clusters) == [
        "level 1",
        "level 1",
        "level 2",
        "level 3",
    ]
    arrows = [each for each in root.iter(f"{SVG}path") if each.get("marker-end")]
    assert len(arrows) == len(tree.distributors)
    assert not [*root.iter(f"{SVG}style")]


def test_counts_stand_at_their_arrows() -> None:
    """Each distributor has its own, also of two that copy to each other; one whose count is not known has none."""
    tree = Tree(name="flights", root=node_of([["a", "b"], ["c", "d"]]))
    copied = {each.name: number * 1_000 for number, each in enumerate(tree.distributors) if number != 3}
    root = xml.fromstring(svg_of(tree, copied))  # noqa: S314  # we have just written it
    counts = {
        str(each.text): (each.get("x"), each.get("y")) for each in root.iter(f"{SVG}text") if each.get("font-size")
    }
    assert counts.keys() == {f"{count:,}" for count in copied.values()}
    assert len(set(counts.values())) == len(copied)
