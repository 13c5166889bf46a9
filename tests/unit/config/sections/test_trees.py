"""Trees in the configuration file: understood, or refused by line with the reason."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.model.naming import SourceTopic
from isthmus.model.offsets import OffsetPolicy

CLUSTERS = "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'}}\n"


def test_a_tree_is_read_with_its_levels() -> None:
    """Nested lists and a stated level become a tree; what it distributes is told by patterns."""
    text = (
        f"{CLUSTERS}trees: [{{name: t, clusters: {{level: 4, clusters: [[a, b], c]}}, topics: ['x.*'], exclude: [x.y],"
        " flags: header, header: {name: copies, width_bytes: 2}}]\n"
    )
    (settings,) = config.parse(text).trees
    assert (settings.tree.root.level, settings.tree.clusters, settings.flags) == (4, ("a", "b", "c"), "header")
    assert (settings.tree.header.name, settings.tree.header.width_bytes) == ("copies", 2)
    assert [settings.distributes(name) for name in ("x.1", "x.y", "z")] == [True, False, False]


def test_trees_and_links_say_topics_alike() -> None:
    """Both take a list, and a section with what to include and to leave out."""
    one = f"{CLUSTERS}trees: [{{name: t, clusters: [a, b], topics: %s}}]\n"
    other = f"{CLUSTERS}links: [{{name: l, source: a, target: b, topics: %s}}]\n"
    for written in ("['x.*']", "{include: ['x.*']}", "{include: ['x.*'], exclude: [x.y]}"):
        (settings,), (link,) = config.parse(one % written).trees, config.parse(other % written).links
        assert (settings.topics, settings.exclude) == (link.topics.include, link.topics.exclude)
        assert [str(each) for each in link.topics.include] == ["x.*"]
    with pytest.raises(ConfigError, match="has exceptions twice"):
        config.parse(f"{CLUSTERS}trees: [{{name: t, clusters: [a, b], topics: {{exclude: [x]}}, exclude: [y]}}]\n")


@pytest.mark.parametrize(
    ("trees", "told"),
    [
        ("[{name: t, clusters: [a, a]}]", r"trees\[0\]\.clusters cluster a is in the tree twice"),
        ("[{name: t, clusters: a}]", "distributes nothing"),
        ("[{name: t, clusters: [a]}]", "fewer than two parts"),
        ("[{name: t, clusters: {level: 1, clusters: [{level: 1, clusters: [a, b]}, c]}}]", "is not above level 1"),
        ("[{name: t, clusters: [a, d]}]", "has d, which is not the alias of a cluster"),
        ("[{name: t, clusters: [{level: 1, clusters: [[a, b], c]}]}]", "is not above level 1"),
        ("[{name: t, clusters: {level: 9, clusters: [a, b]}}]", "level 9 has no bit in a header of 1 bytes"),
        ("[{name: t, clusters: [a, b]}, {name: t, clusters: [a, b]}]", r"trees\[1\]\.name is t, which is the name of"),
        (
            "[{name: t, clusters: [a, b], topics: ['x.*']}, {name: u, clusters: [b, c], topics: [x.1]}]",
            "overlap those of tree t on b",
        ),
        ("[{name: t, clusters: [a, b], topics: [x, _schemas]}]", r"trees\[0\]\.topics\[1\] cannot match: .*_schemas"),
        ("[{name: t, clusters: [a, b], topics: ['__x*']}]", r"trees\[0\]\.topics\[0\] cannot match"),
    ],
)
def test_what_is_no_tree_is_refused(trees: str, told: str) -> None:
    """By its place in the file."""
    with pytest.raises(ConfigError, match=told):
        config.parse(f"{CLUSTERS}trees: {trees}\n")


def test_trees_that_share_topics_but_no_cluster() -> None:
    """They have nothing to do with each other."""
    more = CLUSTERS.replace("}}\n", "}, d: {bootstrap_servers: 'h:4'}}\n")
    trees = "[{name: t, clusters: [a, b], topics: [x]}, {name: u, clusters: [c, d], topics: [x]}]"
    assert len(config.parse(f"{more}trees: {trees}\n").trees) == 2


def test_a_mirror_into_a_topic_of_a_tree_is_refused() -> None:
    """A mirror has one writer, and a tree has many."""
    text = (
        f"{CLUSTERS}links: [{{name: l, source: a, target: b, topics: {{include: ['x.*', z]}}}}]\n"
        "trees: [{name: t, clusters: [b, c], topics: [x.1]}]\n"
    )
    with pytest.raises(ConfigError, match=r"links\[0\]\.topics mirrors into x\.1 of b, which tree t distributes"):
        config.parse(text)
    assert config.parse(text.replace("[x.1]", "[y]")).trees


def test_a_tree_becomes_links() -> None:
    """One for each distributor, which knows its level and what else copies from its source."""
    more = CLUSTERS.replace("}}\n", "}, d: {bootstrap_servers: 'h:4'}}\n")
    trees = "[{name: t, clusters: [[a, b], [c, d]], topics: ['orders*'], exclude: [orders.x]}]"
    configuration = config.parse(f"{more}trees: {trees}\n")
    links = {link.name: link for link in configuration.links}
    assert sorted(links) == [f"t.{cluster}.{level}" for cluster in "abcd" for level in (1, 2)]
    link = links["t.b.2"]
    assert (link.source.alias, link.target.alias, link.level, link.tree) == ("b", "d", 2, "t")
    assert link.distributor is not None
    assert {cluster.alias: set(names) for cluster, names in link.distributor.others} == {
        "a": {"t.b.1"},
        "c": set(),
        "d": {"t.b.2"},
    }
    assert link.topics.offsets is OffsetPolicy.MAPPED
    assert link.topics.matches(SourceTopic("orders.y"))
    assert not link.topics.matches(SourceTopic("orders.x"))


def test_a_link_with_the_name_of_a_distributor_is_refused() -> None:
    """Names tell links apart in the ledger, so that two distributors have to have names of their own as well."""
    text = f"{CLUSTERS}links: [{{name: t.a.1, source: a, target: b}}]\ntrees: [{{name: t, clusters: [a, c]}}]\n"
    with pytest.raises(ConfigError, match=r"links\[0\]\.name is t\.a\.1, which is the name of a distributor of tree t"):
        config.parse(text)
    dotted = CLUSTERS.replace("}}\n", "}, b.a: {bootstrap_servers: 'h:4'}, b.c: {bootstrap_servers: 'h:5'}}\n")
    trees = "trees: [{name: t.b, clusters: [a, c]}, {name: t, clusters: [b.a, b.c]}]\n"
    with pytest.raises(ConfigError, match=r"trees\[1\]\.name gives the name t\.b\.a\.1 to a distributor, as tree t\.b"):
        config.parse(dotted + trees)


def test_a_tree_goes_on_behind_gaps_if_it_says_so() -> None:
    """As links do: a leaf that was away for longer than messages are retained would stand still otherwise."""
    for more, policy in (("", "stop"), (", on_data_gap: continue", "continue")):
        found = config.parse(f"{CLUSTERS}trees: [{{name: t, clusters: [a, b]{more}}}]\n")
        assert {link.on_data_gap for link in found.links} == {policy} == {found.trees[0].on_data_gap}
