"""From what a link asks for to access rules: enough, and no more than rules can say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isthmus.access.grants import Grants, fixed_prefix, granted_sides, grants_of
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings, RulePattern
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.links.needs import NEEDS, Side
from isthmus.model.mirrormaker import MirrorMakerSettings, SyncsPlace
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import MirrorMakerNaming, NameTemplate, Naming, PrefixNaming, TemplateNaming
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern, TopicSettings

LINK = Link(
    name="east-west",
    source=Cluster(alias="east", bootstrap_servers=("e:1",)),
    target=Cluster(alias="west", bootstrap_servers=("w:1",)),
    topics=TopicSettings(include=(TopicPattern("literal", "orders"),)),
)


def granted(link: Link, side: Side, **options: Any) -> Grants:
    """What it is granted."""
    return grants_of(link, side, "User:me", **options)


def rules(link: Link, side: Side, **options: Any) -> set[tuple[Resource, str, str]]:
    """The rules by kind, name and operation; a prefix ends with a star."""
    return {
        (g.rule.resource, g.rule.name + "*" * (g.rule.pattern is RulePattern.PREFIXED), g.rule.operation)
        for g in granted(link, side, **options).grants
    }


def selecting(*patterns: str, naming: Naming | None = None, **settings: Any) -> Link:
    """The link with other topics."""
    include = tuple(map(TopicPattern.parse, patterns))
    topics = TopicSettings(include=include, naming=naming or PrefixNaming(), **settings)
    return replace(LINK, topics=topics)


def test_a_plain_link() -> None:
    """What goes without saying is left out: DESCRIBE, DESCRIBE_CONFIGS beside ALTER_CONFIGS, IDEMPOTENT_WRITE."""
    topic, cluster = Resource.TOPIC, Resource.CLUSTER
    assert rules(LINK, Side.SOURCE) == {(topic, "orders", "READ"), (topic, "orders", "DESCRIBE_CONFIGS")}
    assert rules(LINK, Side.TARGET) == {
        *((topic, "orders", each) for each in ("CREATE", "WRITE", "READ", "DELETE", "ALTER", "ALTER_CONFIGS")),
        *((topic, "__isthmus.ledger", each) for each in ("CREATE", "WRITE", "READ", "DESCRIBE_CONFIGS")),
        (Resource.TRANSACTIONAL_ID, "isthmus.east-west.*", "WRITE"),
        (cluster, "kafka-cluster", "ALTER"),
        (cluster, "kafka-cluster", "DESCRIBE_CONFIGS"),
    }


def test_a_declared_link() -> None:
    """It is about the names of its namespaces alone, and needs the ledger and its writers at the source too."""
    maps = (NamespaceMap.parse("local-:remote-"), NamespaceMap.parse("one:other", is_exact=True))
    groups = GroupSettings(
        include=(GroupPattern.parse("*"),), naming=NamespaceNaming((NamespaceMap.parse("app-", "group"),))
    )
    link = replace(selecting("*", naming=NamespaceNaming(maps)), groups=groups)
    at_source, at_target = (rules(link, side) for side in (Side.SOURCE, Side.TARGET))
    assert {name for kind, name, each in at_source if each == "READ"} == {
        *("local-*", "one", "__isthmus.ledger", "__consumer_offsets")
    }
    assert {name for kind, name, each in at_target if kind is Resource.TOPIC and each == "WRITE"} == {
        *("remote-*", "other", "__isthmus.ledger")
    }
    assert {name for kind, name, _ in at_target if kind is Resource.GROUP} == {"app-*"}
    for found in (at_source, at_target):
        assert {(name, each) for kind, name, each in found if kind is Resource.TRANSACTIONAL_ID} == {
            *(("isthmus.east-west.*", "WRITE"), ("isthmus.namespace.*", "WRITE"))
        }
        of_ledger = {each for _, name, each in found if name == "__isthmus.ledger"}
        assert of_ledger == {"CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS"}


def test_rules_reach_no_link_of_another_principal_whose_name_begins_alike() -> None:
    """Rules by a prefix are about its transactional ids too. Where its principal is not known that is noted."""

    def named(name: str, user: str | None) -> Link:
        target = replace(LINK.target, security=replace(LINK.target.security, username=user))
        return replace(LINK, name=name, target=target)

    def at_target(*others: Link) -> tuple[str, ...]:
        (side,) = granted_sides(own, {}, others=(own, *others), side=Side.TARGET)
        return side.notes

    own = named("orders", "me")
    assert at_target(named("orders.eu", "me"), named("orders-us", "other"), named("all.orders", "other")) == ()
    (note,) = at_target(named("orders.eu", None))
    assert "what begins with isthmus.orders., as that of link orders.eu does" in note
    with pytest.raises(
        ConfigError, match=r"User:me would have rights on .* link orders.eu does, which User:other runs"
    ):
        at_target(named("orders.eu", "other"))


def test_quotas_of_attached_principals() -> None:
    """To list and set them is for links with principals alone, and a wish."""
    principals = (NamespaceMap.parse("User:local-:User:remote-", "principal"),)
    link = replace(LINK, access=AccessSettings(policy=AccessPolicy.READ_ONLY, principals=principals))
    without = replace(LINK, access=AccessSettings(policy=AccessPolicy.READ_ONLY))
    name = (Resource.CLUSTER, "kafka-cluster")
    source, target = (rules(link, side) - rules(without, side) for side in Side)
    assert source == {(*name, "DESCRIBE_CONFIGS")}
    # It comes with DESCRIBE_CONFIGS, which needs no rule of its own any more.
    assert target == {(*name, "ALTER_CONFIGS")}
    assert rules(link, Side.TARGET, only_required=True) == rules(without, Side.TARGET, only_required=True)


def test_only_what_it_cannot_do_without() -> None:
    """Wishes are left out, and what they would have implied is back."""
    found = rules(LINK, Side.TARGET, only_required=True)
    assert not any(kind is Resource.CLUSTER for kind, _, _ in found)
    assert {each for _, name, each in found if name == "orders"} == {"CREATE", "WRITE", "READ", "DESCRIBE_CONFIGS"}


def test_what_is_not_used_is_not_granted() -> None:
    """Mapped offsets need no deletion; without configurations to follow they alter none either."""
    link = replace(selecting("orders", offsets=OffsetPolicy.MAPPED), configs=ConfigSettings(sync=False))
    operations = {each for _, name, each in rules(link, Side.TARGET) if name == "orders"}
    assert operations == {"CREATE", "WRITE", "READ", "ALTER", "DESCRIBE_CONFIGS"}


def test_groups_rules_and_topics_of_mirror_maker() -> None:
    """Each asks for rights of its own, at the side where it is at work."""
    groups = GroupSettings(
        include=(GroupPattern.parse("billing*"),), naming=PrefixNaming(target_prefix="e."), delete_at_target=True
    )
    mm2 = MirrorMakerSettings(offset_syncs=SyncsPlace.SOURCE, checkpoints=True, heartbeats=True)
    link = replace(LINK, groups=groups, access=AccessSettings(policy=AccessPolicy.FULL), mm2=mm2)
    source, target = (rules(link, side) - rules(LINK, side) for side in Side)
    topic = Resource.TOPIC
    assert source == {
        (Resource.GROUP, "billing*", "DESCRIBE"),
        (topic, "__consumer_offsets", "READ"),
        (topic, "__isthmus.ledger", "READ"),
        (Resource.CLUSTER, "kafka-cluster", "DESCRIBE"),
        *((topic, "mm2-offset-syncs.west.internal", o) for o in ("CREATE", "WRITE", "READ", "DESCRIBE_CONFIGS")),
    }
    assert target == {
        (Resource.GROUP, "e.billing*", "READ"),
        (Resource.GROUP, "e.billing*", "DELETE"),
        (topic, "__consumer_offsets", "READ"),
        *((topic, "east.checkpoints.internal", o) for o in ("CREATE", "WRITE", "READ", "DESCRIBE_CONFIGS")),
        *((topic, "heartbeats", o) for o in ("CREATE", "WRITE", "DESCRIBE_CONFIGS")),
    }
    (alter,) = [
        g
        for g in granted(link, Side.TARGET).grants
        if (g.rule.resource, g.rule.operation) == (Resource.CLUSTER, "ALTER")
    ]
    assert alter.is_required
    assert "control records" in alter.purpose
    assert "create access rules" in alter.purpose


def test_groups_that_are_translated_alone_are_only_looked_at() -> None:
    """Nothing is committed or deleted at the target, so no right to that is asked for."""
    groups = GroupSettings(include=(GroupPattern.parse("billing*"),), commit=False, delete_at_target=True)
    link = replace(LINK, groups=groups)
    assert rules(link, Side.TARGET) - rules(LINK, Side.TARGET) == {(Resource.GROUP, "billing*", "DESCRIBE")}


@pytest.mark.parametrize(
    ("naming", "patterns", "source", "target"),
    [
        (None, ("orders.*",), {"orders.*"}, {"orders.*"}),
        (None, ("*", "orders"), {"*"}, {"*"}),
        (None, ("orders.*", "orders.eu"), {"orders.*"}, {"orders.*"}),
        (PrefixNaming(target_prefix="e."), ("orders.*", "a"), {"orders.*", "a"}, {"e.orders.*", "e.a"}),
        (PrefixNaming(source_prefix="x."), ("*", "y"), {"x.*"}, {"*"}),
        (PrefixNaming(source_prefix="x.", target_prefix="z."), ("x.a*", "y*"), {"x.a*"}, {"z.a*"}),
        (MirrorMakerNaming(source_alias="east", target_alias="west"), ("o*",), {"o*"}, {"east.o*"}),
        (
            TemplateNaming(source=NameTemplate.parse("{a}-{b}"), target=NameTemplate.parse("{b}.{a}")),
            ("x-y", "x-*"),
            {"x-*"},
            {"*"},
        ),
    ],
)
def test_names_and_patterns(
    naming: Naming | None, patterns: tuple[str, ...], source: set[str], target: set[str]
) -> None:
    """Patterns are rules about prefixes, under the names of the side; what a wider one covers has none of its own."""
    link = selecting(*patterns, naming=naming)
    for side, expected in ((Side.SOURCE, source), (Side.TARGET, target)):
        found = {name for kind, name, operation in rules(link, side) if (kind, operation) == (Resource.TOPIC, "READ")}
        assert found - {"__isthmus.ledger"} == expected


def test_what_rules_cannot_say_is_told() -> None:
    """Exclusions, regular expressions, and names that only a template makes."""
    templates = TemplateNaming(source=NameTemplate.parse("{a}-{b}"), target=NameTemplate.parse("{b}.{a}"))
    link = selecting("/audit-[0-9]+/", naming=templates, exclude=(TopicPattern("literal", "audit-1"),))
    (excluded, expression) = granted(link, Side.SOURCE).notes
    assert "rules cannot leave topics out" in excluded
    assert "instead of /audit-[0-9]+/ they are about all topics that begin with audit-" in expression
    assert "the naming has no prefix for /audit-[0-9]+/" in granted(link, Side.TARGET).notes[1]
    assert granted(LINK, Side.SOURCE).notes == ()


@pytest.mark.parametrize(
    ("expression", "prefix"),
    [
        ("audit-[0-9]+", "audit-"),
        (r"orders\.eu\..*", "orders.eu."),
        ("ab?c", "a"),
        ("ab{2}", "a"),
        ("ab+", "ab"),
        ("orders|payments", ""),
        ("(orders|payments).x", ""),
        ("(?i)orders", ""),
        (r"a\d", "a"),
        ("orders", "orders"),
    ],
)
def test_what_all_matches_begin_with(expression: str, prefix: str) -> None:
    """Only what is plain to see: too short is safe."""
    assert fixed_prefix(expression) == prefix


def test_the_table_says_what_each_is_for() -> None:
    """Every right has a purpose, and is an error or a warning when it is missing."""
    assert all(need.purpose and need.level in (Level.ERROR, Level.WARN) for need in NEEDS)
