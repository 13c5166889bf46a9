"""MirrorMaker 2's names, and what a link selects that writes for its tools."""

from __future__ import annotations

import pytest

from isthmus.model.mirrormaker import MirrorMakerNames, MirrorMakerSettings, MirrorMakerTopics, SyncsPlace
from isthmus.model.naming import IDENTITY, MirrorMakerNaming, Naming, SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings

NAMES = MirrorMakerNames(source_alias="a", target_alias="b")
MM2 = MirrorMakerNaming(source_alias="a", target_alias="b")


def settings(*patterns: str, naming: Naming = MM2, heartbeats: bool = True) -> TopicSettings:
    """Topics of a link from a to b that writes for tools of MirrorMaker 2."""
    return TopicSettings(
        include=tuple(map(TopicPattern.parse, patterns)),
        naming=naming,
        mirror_maker=MirrorMakerTopics(names=NAMES, heartbeats=heartbeats),
    )


@pytest.mark.parametrize(
    ("separator", "checkpoints", "at_source", "at_target"),
    [
        (".", "a.checkpoints.internal", "mm2-offset-syncs.b.internal", "mm2-offset-syncs.a.internal"),
        ("__", "a__checkpoints__internal", "mm2-offset-syncs__b__internal", "mm2-offset-syncs__a__internal"),
    ],
)
def test_internal_topics_have_their_names(separator: str, checkpoints: str, at_source: str, at_target: str) -> None:
    """The separator stands in all of them, and pairs of offsets bear the name of the other cluster."""
    names = MirrorMakerNames(source_alias="a", target_alias="b", separator=separator)

    assert names.checkpoints == checkpoints
    assert names.offset_syncs(SyncsPlace.SOURCE) == at_source
    assert names.offset_syncs(SyncsPlace.TARGET) == at_target
    assert all(map(names.is_internal, (checkpoints, at_source, at_target)))


def test_heartbeats_are_told_by_their_names() -> None:
    """`heartbeats` behind any number of aliases are heartbeats, and nothing else is."""
    assert [name for name in ("heartbeats", "x.heartbeats", "y.x.heartbeats") if not NAMES.is_heartbeats(name)] == []
    others = ("x-heartbeats", "heartbeats.x", ".heartbeats", "my-heartbeats")
    assert [name for name in others if NAMES.is_heartbeats(name)] == []


def test_heartbeats_are_mirrored_whatever_is_selected() -> None:
    """Those of the source and those that came there, but not those that came from the target."""
    topics = settings("orders")

    found = topics.name_topics(["heartbeats", "x.heartbeats", "b.heartbeats", "orders", "others"])
    assert found.sources == {"a.heartbeats": "heartbeats", "a.x.heartbeats": "x.heartbeats", "a.orders": "orders"}
    assert not found.refused
    assert topics.source_of(TargetTopic("a.heartbeats")) == "heartbeats"
    assert not topics.are_all_literal


def test_heartbeats_are_renamed_where_nothing_else_is() -> None:
    """As with MirrorMaker 2's IdentityReplicationPolicy: each cluster has a topic `heartbeats` of its own."""
    topics = settings("*", naming=IDENTITY)

    assert topics.name_topics(["heartbeats", "orders"]).sources == {"a.heartbeats": "heartbeats", "orders": "orders"}
    assert topics.may_write(TargetTopic("a.heartbeats"))
    assert not topics.may_write(TargetTopic("heartbeats"))
    assert topics.source_of(TargetTopic("heartbeats")) is None


def test_without_heartbeats_topics_are_as_selected() -> None:
    """A link that mirrors no heartbeats asks for its topics by name, and names them all in the same way."""
    topics = settings("orders", naming=IDENTITY, heartbeats=False)

    assert topics.are_all_literal
    assert not topics.matches(SourceTopic("heartbeats"))
    assert settings("*", naming=IDENTITY, heartbeats=False).name_topics(["heartbeats"]).sources == {
        "heartbeats": "heartbeats"
    }


def test_internal_topics_are_never_mirrored() -> None:
    """Checkpoints and pairs of offsets concern one cluster; what merely looks like them is mirrored."""
    internal = ["x.checkpoints.internal", "mm2-offset-syncs.x.internal", "mm2-offsets.x.internal"]
    topics = settings("*")

    assert topics.select([*internal, "billing.internal", "mm2-offsets"]) == ("billing.internal", "mm2-offsets")
    assert TopicSettings(include=topics.include).select(internal) == tuple(sorted(internal))


def test_settings_are_on_with_any_of_them() -> None:
    """By default nothing is written; each of the three is something."""
    assert not MirrorMakerSettings().is_on
    each = (
        MirrorMakerSettings(checkpoints=True),
        MirrorMakerSettings(heartbeats=True),
        MirrorMakerSettings(offset_syncs=SyncsPlace.SOURCE),
    )
    assert all(one.is_on for one in each)
