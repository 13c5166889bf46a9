"""Declared trees in files."""

from __future__ import annotations

import json

import pytest
import yaml

from isthmus.config.declared import parse_assignment
from isthmus.config.declaredtree import declared_tree, read_tree_manifest
from isthmus.errors import ConfigError
from isthmus.memory.declared import DeclaredTree
from isthmus.model.registers import SETTINGS, Author, change_registers
from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import node_of
from isthmus.model.trees.treedeclaration import MEMBERS
from testing.values.declarations import DECLARATION, ROOT, SAID

SETTINGS_SAID = {"topics": ["x.*"], "flags": "header", "header.name": "f"}


def test_what_is_described_can_be_created() -> None:
    """A described tree, as YAML or JSON, is read as the tree it is, and so is an entry of the file's trees."""
    described = plain(DeclaredTree(declaration=DECLARATION, clusters=ROOT))
    for text in (yaml.safe_dump(described, sort_keys=False), json.dumps(described)):
        found = read_tree_manifest(text, "t.yaml")
        assert (found.name, node_of(found.clusters), found.settings) == ("t", ROOT, SETTINGS_SAID)
        assert found.cluster_ids == SAID[MEMBERS]
    short = read_tree_manifest(
        "{name: t, clusters: [[a, b], c], topics: ['x.*'], flags: header, header: {name: f}}", ""
    )
    assert (node_of(short.clusters), short.settings, short.cluster_ids) == (ROOT, SETTINGS_SAID, {})


def test_a_declared_tree_is_what_the_file_would_make_of_it() -> None:
    """Its settings are those of `trees[]`; what was taken back is as by default."""
    settings = declared_tree(DECLARATION, ("a", "b", "c"))
    assert (settings.tree.root, settings.flags, settings.tree.header.name) == (ROOT, "header", "f")
    assert ([str(each) for each in settings.topics], settings.margin_s) == (["x.*"], 60)
    broken = DECLARATION.join(
        change_registers(DECLARATION.registers, {f"{SETTINGS}switch_after_s": 1}, Author(by="bo", at_ms=6, where="A"))
    )
    with pytest.raises(ConfigError, match="tree t: switch_after_s"):
        declared_tree(broken, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a", "t.yaml:1"),
        ("name: t\ntopics: [x]", "clusters is missing"),
        ("name: t\nclusters: [a, a]", r"t\.yaml:2: clusters cluster a is in the tree twice"),
        ("name: t\nclusters: [a, b]\ntopic: [x]", r"t\.yaml:3: topic is not a known key"),
        ("name: t\nclusters: [a, b]\nheader: {width_bytes: 9}", r"t\.yaml:3: header\.width_bytes"),
        ("name: t\nclusters: {level: 9, clusters: [a, b]}", "level 9 has no bit in a header of 1 bytes"),
        ("name: t\nclusters: [a, b]\ncluster_ids: [x]", r"t\.yaml:3: cluster_ids has no ids"),
    ],
)
def test_what_is_no_tree_is_refused(text: str, says: str) -> None:
    """The error names the place and what to write."""
    with pytest.raises(ConfigError, match=says) as caught:
        read_tree_manifest(text, "t.yaml")
    assert caught.value.hint


@pytest.mark.parametrize("text", ["topics", "=x", "topics=[", "topics=2024-01-01", "topics=2024-13-45"])
def test_what_sets_nothing_is_refused(text: str) -> None:
    """What is no key with a value, and what no document of the ledger could hold."""
    with pytest.raises(ConfigError):
        parse_assignment(text, "topics='[x]'")
    assert parse_assignment("topics=[x]", "") == ("topics", ["x"])
