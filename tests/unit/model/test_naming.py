"""Names at the target: reversible, apart from one another, and none that Kafka refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.naming import (
    IDENTITY,
    NO_NAMES,
    LogicalNames,
    MirrorMakerNaming,
    NameTemplate,
    Naming,
    PrefixNaming,
    PythonNaming,
    SourceTopic,
    TargetTopic,
    TemplateNaming,
    apply_naming,
)
from isthmus.model.selection import TopicPattern, TopicSettings

LETTERS = "ab.-_"
names = st.text(LETTERS, min_size=1, max_size=8)
EAST_WEST = MirrorMakerNaming(source_alias="east", target_alias="west")


def templates(source: str, target: str) -> TemplateNaming:
    """A naming by templates as they are written."""
    return TemplateNaming(source=NameTemplate.parse(source), target=NameTemplate.parse(target))


def sources_of(naming: Naming, *topics: str) -> dict[str, str]:
    """The names at the target that are not refused, with those at the source."""
    found = apply_naming(naming, map(SourceTopic, topics))
    return {target: source for target, source in found.sources.items() if target not in found.refused}


def why(naming: Naming, *topics: str) -> str:
    """Why the only name these would have is refused."""
    (problem,) = apply_naming(naming, map(SourceTopic, topics)).refused.values()
    return problem.message


@pytest.mark.parametrize(
    ("naming", "source", "target"),
    [
        (IDENTITY, "orders", "orders"),
        (PrefixNaming(source_prefix="local-", target_prefix="remote-"), "local-orders", "remote-orders"),
        (PrefixNaming(source_prefix="local-", target_prefix="remote-"), "orders", None),
        (EAST_WEST, "orders", "east.orders"),
        (EAST_WEST, "north.orders", "east.north.orders"),
        (EAST_WEST, "west.orders", None),
        (EAST_WEST, "north.west.orders", None),
        (EAST_WEST, "west", "east.west"),
        (MirrorMakerNaming(source_alias="east", target_alias="west", separator="--"), "orders", "east--orders"),
        (templates("{tenant}-{instance}-{env}-{topic}", "{tenant}-{env}-{topic}"), "a-b-c-d-e", "a-c-d-e"),
        (templates("{tenant}-{topic}", "{topic}.{tenant}"), "a-b", "b.a"),
        (templates("{tenant}-{topic}", "{topic}.{tenant}"), "ab", None),
        (templates("in.{topic}.v1", "{topic}"), "in.orders.v1", "orders"),
    ],
)
def test_names_at_the_target(naming: Naming, source: str, target: str | None) -> None:
    """Each way to name, and what has no counterpart."""
    assert naming.to_target(source) == target


@given(names, names, names)
def test_prefixes_are_reversible(name: str, before: str, after: str) -> None:
    """A name comes back from the target as it went there."""
    naming = PrefixNaming(source_prefix=before, target_prefix=after)
    target = naming.to_target(before + name)
    assert target is not None
    assert naming.to_source(target) == before + name


@given(st.lists(names, unique=True, max_size=6))
def test_no_two_topics_share_a_name(topics: list[str]) -> None:
    """Whatever templates make of names, those that are used come from one topic each, and lead back to it."""
    for naming in (templates("{a}-{b}.{c}", "{c}-{a}.{b}"), templates("{a}-{b}", "{b}")):
        used = sources_of(naming, *topics)
        assert len(set(used.values())) == len(used)
        for target, source in used.items():
            assert naming.to_target(source) == target
            assert naming.to_source(target) in (source, None)


def test_topics_that_would_meet_are_refused() -> None:
    """Both names are told: neither is copied before one of them is excluded."""
    naming = templates("{tenant}-{env}-{topic}", "{tenant}-{topic}")
    assert why(naming, "a-test-orders", "a-live-orders") == "a-live-orders, a-test-orders would all become a-orders"
    assert sources_of(naming, "a-live-orders", "b-live-orders") == {
        "a-orders": "a-live-orders",
        "b-orders": "b-live-orders",
    }


def test_a_name_that_does_not_lead_back_is_refused() -> None:
    """The dot that a value holds would be taken for the one between values."""
    naming = templates("{topic}-{env}", "{env}.{topic}")
    assert why(naming, "orders-a.b") == "orders-a.b would become a.b.orders, which is b.orders-a at the source"


@pytest.mark.parametrize("prefix", ["__", "x" * 249, "a b", "a/"])
def test_names_that_kafka_refuses(prefix: str) -> None:
    """Reserved, too long, or with characters that no topic may have: nothing is asked of the target for these."""
    message = why(PrefixNaming(target_prefix=prefix), "orders")
    assert message.startswith("orders would become")


class Shouting:
    """A naming of somebody's own, with a mistake."""

    def to_target(self, name: str) -> str | None:
        return None if name == "quiet" else name.upper()[: 10 // (len(name) - 3)]

    def to_source(self, name: str) -> Any:
        return 5 if name == "FIVES" else name.lower()


def test_a_class_of_ones_own() -> None:
    """What it raises, and what it returns that is no name, is the problem of the topic alone."""
    naming = PythonNaming(spec="naming:Shouting", instance=Shouting())
    found = apply_naming(naming, map(SourceTopic, ["bills", "quiet", "abc", "fives"]))
    assert found.sources == {"BILLS": "bills", "abc": "abc", "fives": "fives"}
    assert "ZeroDivisionError" in found.refused[TargetTopic("abc")].message
    assert "by a int" in found.refused[TargetTopic("fives")].message


@pytest.mark.parametrize("text", ["orders", "{a}-{a}", "{a}{b}", "{a}/{b}"])
def test_templates_that_say_nothing(text: str) -> None:
    """They are refused with how to write one."""
    with pytest.raises(ConfigError) as refused:
        NameTemplate.parse(text)
    assert "{tenant}-{env}-{topic}" in refused.value.hint


def test_a_template_takes_from_its_source_only() -> None:
    """A placeholder the source does not have cannot be filled."""
    with pytest.raises(ConfigError, match=r"which .\{a\}-\{b\}. has not"):
        templates("{a}-{b}", "{a}-{c}")


def settings(naming: Naming, include: Iterable[str] = ("*",)) -> TopicSettings:
    """Settings that select by these patterns."""
    return TopicSettings(include=tuple(map(TopicPattern.parse, include)), naming=naming)


def test_settings_name_what_they_select() -> None:
    """Patterns are those of the source; names at the target lead back where the naming can say it."""
    chosen = settings(PrefixNaming(target_prefix="east."), ["orders"])
    assert chosen.target_of(SourceTopic("orders")) == "east.orders"
    assert chosen.target_of(SourceTopic("bills")) is None
    assert chosen.source_of(TargetTopic("east.orders")) == "orders"
    assert chosen.source_of(TargetTopic("orders")) is None
    assert [chosen.may_write(TargetTopic(name)) for name in ("east.orders", "east.bills", "orders")] == [
        True,
        False,
        False,
    ]
    assert settings(templates("{a}-{b}", "{b}")).may_write(TargetTopic("orders"))


def test_users_know_one_part_of_a_name() -> None:
    """What stands in the place of the topic or the group; what does not fit is its own logical name."""
    names = LogicalNames(
        topics=NameTemplate.parse("{tenant}-{env}-{topic}"), groups=NameTemplate.parse("{tenant}-{env}-{group}")
    )
    assert (names.topic("acme-live-orders-eu"), names.group("acme-live-billing")) == ("orders-eu", "billing")
    assert (names.topic("orders"), names.group("billing"), NO_NAMES.topic("a-b-c")) == ("orders", "billing", "a-b-c")
