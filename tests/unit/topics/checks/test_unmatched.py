"""What is said of patterns and names of a link that match nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.kafka import codes
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, TopicMetadata
from isthmus.model.groupsettings import GroupPattern
from isthmus.model.namespace import Namespace, NamespaceMap, NamespaceNaming
from isthmus.model.naming import (
    MirrorMakerNaming,
    NameTemplate,
    Naming,
    PrefixNaming,
    SourceTopic,
    TargetTopic,
    TemplateNaming,
)
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.checks.unmatched import missing, unmatched_topic_patterns, warnings
from isthmus.topics.names import named_topics
from testing.values.planned import LINK

MM2 = MirrorMakerNaming(source_alias="east", target_alias="west")
ORDERS_OR_WEST = TopicPattern.parse("/orders|west.orders/")
NAMES = ["orders.eu", "orders.us", "payments"]


def test_one_sentence_for_each_pattern() -> None:
    """Link, kind, pattern, cluster and the nearest name are all there."""
    patterns = [TopicPattern.parse("odrers.*"), TopicPattern.parse("/inventory-.+/")]
    first, second = warnings(LINK, "topic", patterns, NAMES)
    assert first.message == 'topics.include "odrers.*" matches no topic of east'
    assert first.hint.startswith("The nearest name is orders.eu.")
    assert 'topics.include "/inventory-.+/"' in second.message
    assert "none has a name like it" in second.hint


def test_groups_likewise() -> None:
    """Groups have a sentence of their own."""
    (found,) = warnings(LINK, "group", [GroupPattern.parse("biling")], ["billing"])
    assert found.message == 'groups.include "biling" matches no group of east'
    assert "billing" in found.hint


def test_a_pattern_that_nobody_wrote_is_not_named() -> None:
    """A declared link carries all groups of its namespaces: there it is the namespaces that hold none."""
    naming = NamespaceNaming((NamespaceMap(source=Namespace.of("shop-"), target=Namespace.of("shop-")),))
    declared = replace(LINK, topics=replace(LINK.topics, naming=naming))
    (found,) = warnings(declared, "group", [GroupPattern.parse("*")], [])
    assert found.message == "east has no group in a namespace of the link"


def test_exclusion_is_told_apart() -> None:
    """A pattern that matches only what is excluded is not called misspelt."""
    (found,) = warnings(LINK, "topic", [TopicPattern.parse("orders.*")], NAMES)
    assert found.hint.startswith("It matches orders.eu, orders.us, which topics.exclude leaves out.")


def test_a_link_that_was_detached_has_no_pattern_to_warn_of() -> None:
    """A promotion would warn of `topics.include` and `topics.naming`, which nobody has set."""
    every = TopicPattern.parse("*")
    link = replace(LINK, topics=TopicSettings(include=(every,), naming=NamespaceNaming()))
    assert warnings(link, "topic", [every], NAMES) == ()
    assert warnings(link, "topic", [TopicPattern.parse("pay*")], NAMES)


def test_missing_name() -> None:
    """A name that is meant literally is suggested literally."""
    problem = missing("paymets", LINK, NAMES)
    assert problem.message == "east has no such topic"
    assert problem.hint.startswith("Did you mean payments? It is mirrored as soon as it is there.")
    assert missing("inventory", LINK, NAMES).hint.startswith("It is mirrored as soon as")


def test_names_have_problems_of_their_own() -> None:
    """Only prefixes and expressions are asked whether they match; a topic we may not see is there."""
    include = tuple(TopicPattern.parse(text) for text in ("orders.*", "gone", "pay*"))
    link = replace(LINK, topics=TopicSettings(include=include))

    def found(**topics: int) -> Metadata:
        known = {name: TopicMetadata(name, NO_TOPIC_ID, (), code, False) for name, code in topics.items()}
        return Metadata("E", 1, {}, known)

    metadata = found(payments=codes.TOPIC_AUTHORIZATION_FAILED, gone=codes.UNKNOWN_TOPIC_OR_PARTITION)
    assert [str(pattern) for pattern in unmatched_topic_patterns(link, metadata)] == ["orders.*"]


@pytest.mark.parametrize(
    ("naming", "name", "why"),
    [
        (MM2, "west.orders", "west. is in its name: it came from west"),
        (PrefixNaming(source_prefix="live-"), "orders", "does not begin with source_prefix 'live-'"),
        (
            TemplateNaming(source=NameTemplate.parse("{a}-{b}"), target=NameTemplate.parse("{a}-{b}")),
            "orders",
            "is not of the form {a}-{b}",
        ),
        (NamespaceNaming(), "orders", "in no namespace"),
    ],
)
def test_what_the_naming_leaves_out_is_said(naming: Naming, name: str, why: str) -> None:
    """Named it is refused, with the reason; by a pattern it is in the warning about what matches nothing."""
    link = replace(LINK, topics=TopicSettings(include=(TopicPattern.parse(name), ORDERS_OR_WEST), naming=naming))
    found = named_topics(link.topics, [name])
    assert found.sources == {TargetTopic(name): name}
    assert why in found.refused[TargetTopic(name)].message
    assert link.topics.target_of(SourceTopic(name)) is None

    metadata = Metadata("E", 1, {}, {name: TopicMetadata(name, NO_TOPIC_ID, (), codes.NONE, False)})
    assert unmatched_topic_patterns(link, metadata) == (ORDERS_OR_WEST,)
    (warning,) = warnings(link, "topic", [ORDERS_OR_WEST], [name])
    assert f"It matches {name}, which topics.naming leaves out" in warning.hint
    assert why in warning.hint


def test_a_name_that_another_topic_gets_is_not_taken() -> None:
    """A topic without a name is refused under its own, unless a topic of the link has that at the target."""
    include = (TopicPattern.parse("orders"), TopicPattern.parse("live-orders"))
    topics = TopicSettings(include=include, naming=PrefixNaming(source_prefix="live-"))

    found = named_topics(topics, ["orders", "live-orders"])
    assert (dict(found.sources), dict(found.refused)) == ({TargetTopic("orders"): "live-orders"}, {})
