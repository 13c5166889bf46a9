"""Which topics at the target somebody means who names a namespace of a link."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from isthmus.errors import ConfigError
from isthmus.links.pausing import part_there
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.namespace import Namespace, NamespaceMap, NamespaceNaming
from isthmus.model.naming import (
    IDENTITY,
    MirrorMakerNaming,
    NameTemplate,
    Naming,
    PrefixNaming,
    TargetTopic,
    TemplateNaming,
)
from isthmus.model.selection import TopicPattern, TopicSettings

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=(f"{alias}:9092",)) for alias in ("east", "west"))
DECLARED = NamespaceNaming(
    (
        NamespaceMap.parse("local-:remote-"),
        NamespaceMap.parse("local.clicks:far.clicks", is_exact=True),
        NamespaceMap.parse("plain."),
    )
)


def meant(naming: Naming, namespace: str, *include: str, there: Collection[str] = ()) -> Namespace | TargetTopic:
    """What is meant of a link with this naming that reads these topics, by default all."""
    patterns = tuple(map(TopicPattern.parse, include or ("*",)))
    topics = TopicSettings(include=patterns, exclude=(TopicPattern.parse("plain.scratch*"),), naming=naming)
    return part_there(Link(name="orders", source=EAST, target=WEST, topics=topics), namespace, there)


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("remote-", Namespace(prefix="remote-")),
        ("remote-*", Namespace(prefix="remote-")),
        ("remote-eu", Namespace(prefix="remote-eu")),
        ("remo", Namespace(prefix="remo")),
        ("local-", Namespace(prefix="remote-")),
        ("local-eu", Namespace(prefix="remote-eu")),
        ("local.clicks", TargetTopic("far.clicks")),
        ("local.", TargetTopic("far.clicks")),
        ("far.clicks", Namespace(prefix="far.clicks")),
        ("plain.", Namespace(prefix="plain.")),
        ("plain.eu", Namespace(prefix="plain.eu")),
    ],
)
def test_a_namespace_of_a_declared_link_is_named_as_on_either_side(
    namespace: str, expected: Namespace | TargetTopic
) -> None:
    """One name, a part of a prefix, or what several prefixes of the target begin with."""
    assert meant(DECLARED, namespace) == expected


@pytest.mark.parametrize(
    ("naming", "namespace", "expected"),
    [
        (IDENTITY, "orders.e", "orders.e"),
        (IDENTITY, "_orders", "_orders"),
        (PrefixNaming(source_prefix="", target_prefix="copy."), "copy.orders", "copy.orders"),
        (PrefixNaming(source_prefix="", target_prefix="copy."), "orders", "copy.orders"),
        (MirrorMakerNaming(source_alias="east", target_alias="west"), "orders", "east.orders"),
        (MirrorMakerNaming(source_alias="east", target_alias="west"), "east.orders", "east.orders"),
    ],
)
def test_a_namespace_of_a_link_of_the_file_is_named_as_on_either_side(
    naming: Naming, namespace: str, expected: str
) -> None:
    """By its naming, and by what it includes."""
    assert meant(naming, namespace, "orders.*", "_orders", "/audit/") == Namespace(prefix=expected)


@pytest.mark.parametrize("namespace", ["localclicks", "local.click.", "far.clicks.x", "elsewhere", "plain.scratch-1"])
def test_what_covers_nothing_is_refused(namespace: str) -> None:
    """No pause is written that stops nothing; the namespaces that there are are named."""
    with pytest.raises(ConfigError, match="link orders mirrors no topic whose name begins with") as refused:
        meant(DECLARED, namespace)
    assert "local-*:remote-*, local.clicks:far.clicks, plain.*:plain.*" in (refused.value.hint or "")
    with pytest.raises(ConfigError, match="mirrors no topic"):
        meant(IDENTITY, namespace, "orders")


def test_what_is_of_several_namespaces_of_the_source_is_refused() -> None:
    """A pause is about one of the target."""
    with pytest.raises(ConfigError, match=r"belong to several namespaces: local-\*, local\.clicks"):
        meant(DECLARED, "local")


def test_where_names_do_not_say_what_is_copied_the_topics_do() -> None:
    """A template has no prefix: what begins so has to be there."""
    naming = TemplateNaming(
        source=NameTemplate.parse("{tenant}-{topic}"), target=NameTemplate.parse("{topic}-{tenant}")
    )
    assert meant(naming, "orders", there=["orders-acme"]) == Namespace(prefix="orders")
    with pytest.raises(ConfigError, match="mirrors no topic"):
        meant(naming, "orders", there=["clicks-acme"])
