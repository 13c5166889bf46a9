"""Trees of the file and declared ones, put together."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.config.declaredtree import check_tree_keys, declared_tree
from isthmus.errors import ConfigError
from isthmus.ledger.documents.kinds import TreeDeclarationDocument, decode_document, encode_document, link_of
from isthmus.memory.declared import Declared, Merged
from isthmus.model.registers import DELETED, SETTINGS, Author, change_registers
from isthmus.model.text.plain import plain
from isthmus.model.trees.reshaping import TreeShape, add_cluster, text_of
from isthmus.model.trees.tree import node_of
from isthmus.model.trees.treedeclaration import CLUSTERS, MEMBERS, TreeDeclaration

TEXT = (
    "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'}}\n"
    "trees: [{name: of-file, clusters: [a, b], topics: [x]}]\n"
)
WRITTEN = config.parse(TEXT)
IDS = {"a": "A", "b": "B", "c": "C"}


def declaration(name: str, clusters: object, **settings: object) -> TreeDeclaration:
    """A tree of clusters with these names."""
    root = node_of(clusters)
    values = {
        CLUSTERS: plain(root),
        MEMBERS: {alias: alias.upper() for alias in root.leaves()},
        DELETED: False,
        **{f"{SETTINGS}{key}": value for key, value in settings.items()},
    }
    return TreeDeclaration(name=name, registers=change_registers((), values, Author(by="anna", at_ms=1, where="A")))


def test_a_tree_of_the_file_wins_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It is run in place of the declared one of its name, once with a warning; others are run beside it, and are not
    what the file says.
    """
    trees = {
        "of-file": declaration("of-file", ["b", "c"], topics=["y"]),
        "t": declaration("t", ["b", "c"], topics=["z"]),
    }
    declared = Declared(ids=IDS, trees=Merged(trees))
    found = declared.over(WRITTEN)
    assert [each.tree.name for each in found.trees] == ["of-file", "t"]
    assert found.trees[0] == WRITTEN.trees[0]
    assert [link.name for link in found.links] == ["of-file.a.1", "of-file.b.1", "t.b.1", "t.c.1"]
    assert (found.declared_trees, found.declared) == (frozenset({"t"}), frozenset())
    assert found.written == WRITTEN
    assert declared.over(found) == found
    told = [record.getMessage() for record in caplog.records]
    assert told == ["tree of-file of the file is run in place of the declared one of that name"]
    gone = declaration("t", ["b", "c"]).join(
        change_registers(trees["t"].registers, {DELETED: True}, Author(by="bo", at_ms=2, where="A"))
    )
    assert Declared(ids=IDS, trees=Merged({"t": gone})).over(WRITTEN).trees == WRITTEN.trees


def test_a_cluster_under_another_name_is_refused() -> None:
    """Distributors are named by clusters: under other names they would be others, and copy everything once more."""
    tree = declaration("t", ["b", "c"])
    for ids, says in (
        ({"a": "C", "b": "B"}, r"has cluster c \(C\), which this file calls a"),
        ({"a": "A", "b": "B", "c": "D"}, r"has cluster c \(C\), which this file has not"),
    ):
        declared = Declared(ids=ids, trees=Merged({"t": tree}))
        assert declared.over(WRITTEN).trees == WRITTEN.trees
        with pytest.raises(ConfigError, match=says):
            declared.tree(tree, WRITTEN)
    with pytest.raises(ConfigError, match=r"has cluster d \(D\), which this file has not"):
        Declared(ids=IDS).tree(declaration("t", ["a", "d"]), WRITTEN)
    assert Declared(ids={"b": "B"}, trees=Merged({"t": tree})).over(WRITTEN).declared_trees == {"t"}, "c is away"


def test_a_link_of_the_file_keeps_the_name_of_a_distributor() -> None:
    """As it would in the file: the tree is not run."""
    text = TEXT.replace("trees:", "links: [{name: t.b.1, source: a, target: c}]\ntrees:")
    with pytest.raises(ConfigError, match=r"tree t: a link of the file is t\.b\.1, which is the name of a distributor"):
        Declared(ids=IDS).tree(declaration("t", ["b", "c"]), config.parse(text))


def test_a_declared_tree_becomes_another_one() -> None:
    """It is run as it has become, by whoever has these clusters; all of them, and who came, are to know it."""
    tree = declaration("t", ["a", "b"], topics=["z"])
    settings = Declared(ids=IDS).tree(tree, WRITTEN)
    grown = add_cluster(settings.tree, {}, "c", beside=None)
    shape = TreeShape(clusters=text_of(grown.after.root), bases=(text_of(tree.root),))
    declared = Declared(ids=IDS, trees=Merged({"t": tree}, {("a", "t"): tree.registers}), shapes={"t": shape})
    assert declared.over(WRITTEN).trees[1].tree.clusters == ("a", "b", "c")
    assert declared.behind(tree) == ("b", "c")
    assert declared.clusters_now(tree) == grown.after.root


@pytest.mark.parametrize("key", ["name", "clusters", "clusters.level", "clusters.clusters"])
def test_settings_change_no_clusters(key: str) -> None:
    """Neither as a whole nor a part of them, and no name."""
    with pytest.raises(ConfigError, match=f"{key} of a declared tree cannot be set"):
        check_tree_keys([key])


@pytest.mark.parametrize(
    "said",
    [{".name": "u"}, {".clusters": ["a", "b"]}, {"header": 1, "header.name": "x"}, {"header.name.x": 1}, {"": 1}],
)
def test_what_is_no_key_of_a_tree_is_refused(said: dict[str, object]) -> None:
    """Wherever it stands."""
    check_tree_keys(said)
    with pytest.raises(ConfigError, match=r"^tree t: "):
        declared_tree(declaration("t", ["b", "c"], **said), ("b", "c"))


@pytest.mark.parametrize(
    "said",
    [{CLUSTERS: 5}, {CLUSTERS: {"clusters": ["b", "c"], "new": 1}}, {MEMBERS: 5}, {MEMBERS: {"b": 1}}, {MEMBERS: None}],
)
def test_what_cannot_be_read_is_no_tree(said: dict[str, object]) -> None:
    """Somebody else may write to a ledger: it ends nothing."""
    tree = declaration("t", ["b", "c"])
    assert tree.is_whole
    assert not tree.join(change_registers(tree.registers, said, Author(by="bo", at_ms=2, where="A"))).is_whole


def test_the_document_survives_the_ledger() -> None:
    """As it was written, it is read; it is about no link."""
    registers = declaration("t", [["a", "b"], "c"], topics=["x"]).registers
    document = TreeDeclarationDocument(tree="t", cluster="A", registers=registers)
    assert decode_document(document.key, encode_document(document)) == document
    assert (document.key, link_of(document.key)) == ("tree-declaration/t/@A", "")
