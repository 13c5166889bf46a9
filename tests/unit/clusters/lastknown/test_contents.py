"""Which names of a cluster belong to a link, for whoever is to remember them."""

from __future__ import annotations

import asyncio

import pytest

from isthmus.clusters.lastknown.contents import NamesOfLink, contents
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata
from isthmus.model.cluster import Cluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.links.lastknown import KnownNames
from isthmus.model.naming import PrefixNaming
from isthmus.model.selection import TopicPattern, TopicSettings

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
TOPICS = TopicSettings(include=(TopicPattern.parse("a-*"),), naming=PrefixNaming(target_prefix="east."))
GROUPS = GroupSettings(include=(GroupPattern.parse("g-*"),), naming=PrefixNaming(target_prefix="east."))
LINK = Link(name="l", source=EAST, target=WEST, topics=TOPICS, groups=GROUPS)
SOURCE, TARGET = NamesOfLink(LINK, is_source=True), NamesOfLink(LINK, is_source=False)


def test_names_are_those_of_their_side() -> None:
    """Of topics and groups; a link that carries no groups has none."""
    assert [name for name in ("a-1", "b-1", "east.a-1", "east.b-1") if SOURCE.has_topic(name)] == ["a-1"]
    assert [name for name in ("a-1", "b-1", "east.a-1", "east.b-1") if TARGET.has_topic(name)] == ["east.a-1"]
    assert [name for name in ("g-1", "h-1", "east.g-1", "east.h-1") if SOURCE.has_group(name)] == ["g-1"]
    assert [name for name in ("g-1", "h-1", "east.g-1", "east.h-1") if TARGET.has_group(name)] == ["east.g-1"]
    without = NamesOfLink(Link(name="l", source=EAST, target=WEST, topics=TOPICS), is_source=True)
    assert not without.has_group("g-1")


@pytest.mark.parametrize(
    ("resource", "name", "pattern", "is_concerned"),
    [
        (Resource.TOPIC, "a-1", RulePattern.LITERAL, True),
        (Resource.TOPIC, "a-new", RulePattern.LITERAL, True),
        (Resource.TOPIC, "b-1", RulePattern.LITERAL, False),
        (Resource.TOPIC, "a", RulePattern.PREFIXED, True),
        (Resource.TOPIC, "*", RulePattern.LITERAL, True),
        (Resource.TOPIC, "b", RulePattern.PREFIXED, False),
        (Resource.GROUP, "g-", RulePattern.PREFIXED, True),
        (Resource.GROUP, "*", RulePattern.LITERAL, False),
    ],
)
def test_rules_about_them(resource: Resource, name: str, pattern: RulePattern, is_concerned: bool) -> None:
    """By their own names, or by what they cover of what is there."""
    rule = Rule(
        resource=resource,
        name=name,
        pattern=pattern,
        principal="User:alice",
        host="*",
        operation="READ",
        permission=PermissionType.ALLOW,
    )
    assert SOURCE.concerns(rule, ["a-1"], []) is is_concerned


def test_what_is_not_told_names_no_address() -> None:
    """Of a cluster that went away meanwhile: others remember that it did, and no place where it was."""

    async def scenario() -> list[KnownNames]:
        async with Client(EAST) as client:
            metadata = Metadata(brokers={}, controller_id=-1, topics={}, cluster_id="E")
            return await contents(client, metadata, [SOURCE])

    (found,) = asyncio.run(scenario())
    assert {each.why for each in found.untold} == {"it could not be reached"}
    assert "127.0.0.1" not in str(found)
