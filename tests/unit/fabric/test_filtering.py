"""What an operator has a link select, in place of the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.errors import ConfigError
from isthmus.ledger.documents.kinds import FiltersDocument
from isthmus.memory.filtering import Filters, filters_of, patterns
from isthmus.model.cluster import Cluster
from isthmus.model.configsettings import OF_EACH_CLUSTER, ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain

LINK = Link(
    name="east-west",
    source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
    target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
    topics=TopicSettings(include=(TopicPattern.parse("orders"),)),
    groups=GroupSettings(include=(GroupPattern.parse("billing"),)),
)


def test_only_what_was_said_is_another() -> None:
    """The rest stays as the file says."""
    found = Filters(topics_include=("audit.*", "/flights-[0-9]/"), groups_exclude=()).of(LINK)
    assert found.topics.select(["orders", "audit.x", "flights-1"]) == ("audit.x", "flights-1")
    assert (found.groups, found.configs) == (LINK.groups, LINK.configs)
    assert Filters().of(LINK) == LINK


def test_what_is_said_later_counts() -> None:
    """List by list: a call that names topics leaves groups as they were."""
    earlier = Filters(topics_include=("a",), groups_include=("g",), since_ms=1)
    assert Filters(topics_include=("b",), since_ms=2).over(earlier) == Filters(
        topics_include=("b",), groups_include=("g",), since_ms=2
    )
    assert Filters(topics_include=("b",), since_ms=2, by="bo").over(replace(earlier, by="ada")).by == "bo"


def test_what_of_the_file_no_longer_counts_is_told() -> None:
    """Whoever adds an exclusion takes those of the file away, unless they give them again."""
    link = Filters(topics_exclude=("a", "b")).of(LINK)
    assert plain(Filters(topics_exclude=("b", "c")).in_force(link))["dropped"] == {"topics_exclude": ["a"]}
    assert plain(Filters(topics_exclude=("b", "c", "a")).in_force(link))["dropped"] == {}
    assert plain(Filters().in_force(link))["dropped"] == {}


def test_patterns_are_added_and_taken_away() -> None:
    """To and from what is in force, by the file or by an operator; a list that is not named stays as it is."""
    now = Filters(topics_exclude=("a", "b"))
    assert Filters(topics_include=("audit", "orders")).added_to(now, LINK) == Filters(
        topics_include=("orders", "audit")
    )
    assert Filters(topics_exclude=("c",)).added_to(now, LINK) == Filters(topics_exclude=("a", "b", "c"))
    assert Filters(topics_exclude=("a",)).taken_from(now, LINK) == Filters(topics_exclude=("b",))
    with pytest.raises(ConfigError, match="'audit' is not among the topics include of east-west"):
        Filters(topics_include=("audit",)).taken_from(now, LINK)


def test_what_a_new_list_leaves_out_is_known_before() -> None:
    """Whoever gives a list in place of another is asked, if something of that counts no longer."""
    assert Filters(topics_include=("audit",)).lost_of(Filters(), LINK) == ["orders"]
    assert Filters(topics_include=("orders", "audit")).lost_of(Filters(), LINK) == []
    assert Filters(topics_exclude=("c",)).lost_of(Filters(topics_exclude=("a",)), LINK) == ["a"]


def test_an_empty_list_is_not_the_file() -> None:
    """Nothing is selected then, which is another thing than saying nothing."""
    assert patterns([""]) == ()
    assert patterns(None) is None
    assert not Filters(topics_include=()).of(LINK).topics.matches(SourceTopic("orders"))
    assert not Filters(topics_include=()).is_as_written


def test_broken_patterns_are_refused() -> None:
    """Before anything is written."""
    with pytest.raises(ConfigError, match="cannot match a topic"):
        Filters(topics_exclude=("no topic",)).check()
    with pytest.raises(ConfigError):
        Filters(groups_include=("/[/",)).check()
    with pytest.raises(ConfigError):
        Filters(configs_exclude=("/[/",)).check()


def test_configurations_are_excluded_in_place_of_those_of_the_file() -> None:
    """The list of the file goes, with what is each cluster's own by default; what a topic keeps stays kept."""
    kept = KeptConfigs(topics=TopicPattern.parse("orders"), properties=(PropertyPattern.parse("segment.*"),))
    link = replace(LINK, configs=ConfigSettings(keep=(kept,)))
    found = Filters(configs_exclude=("retention.*",)).of(link).configs
    assert (found.is_excluded("retention.ms"), found.is_excluded("min.insync.replicas")) == (True, False)
    assert found.keeps(SourceTopic("orders"), "segment.bytes")
    assert Filters(configs_exclude=()).of(link).configs.exclude == ()
    assert plain(Filters(configs_exclude=("retention.*",)).in_force(link))["configs_exclude"] == ["retention.*"]
    assert plain(Filters().in_force(link))["configs_exclude"] == list(OF_EACH_CLUSTER)


def test_what_somebody_else_wrote_is_passed_over() -> None:
    """A record in the ledger that holds no patterns changes nothing."""
    broken = FiltersDocument(link="east-west", topics_include=("no topic",), since_ms=1)
    assert filters_of("east-west", {broken.key: broken}) == Filters()
    good = FiltersDocument(link="east-west", topics_include=("audit",), since_ms=1)
    assert filters_of("east-west", {good.key: good}).topics_include == ("audit",)
    assert filters_of("other", {good.key: good}) == Filters()
