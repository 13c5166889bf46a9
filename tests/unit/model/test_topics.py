"""Topic patterns and filters."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern, TopicSettings

NAME_CHARACTERS = string.ascii_letters + string.digits + "._-"
names = st.text(NAME_CHARACTERS, min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
patterns = st.one_of(
    names.map(lambda name: TopicPattern("literal", name)),
    st.text(NAME_CHARACTERS, max_size=4).map(lambda prefix: TopicPattern("prefix", prefix)),
    names.map(lambda name: TopicPattern("regex", re.escape(name) + ".*")),
)
filters = st.builds(
    lambda include, exclude: TopicSettings(include=tuple(include), exclude=tuple(exclude)),
    st.lists(patterns, max_size=4),
    st.lists(patterns, max_size=4),
)


def selected(include: list[str], exclude: list[str], *topics: str) -> tuple[str, ...]:
    """What a filter written as in the configuration selects from the topics."""
    return TopicSettings(
        include=tuple(map(TopicPattern.parse, include)),
        exclude=tuple(map(TopicPattern.parse, exclude)),
    ).select(topics)


def test_literal_matches_its_own_name_only() -> None:
    """A plain name selects that topic and no other that contains it."""
    assert selected(["orders"], [], "orders", "orders.eu", "my-orders") == ("orders",)


def test_dot_in_a_literal_is_a_dot() -> None:
    """A name is no regular expression."""
    assert selected(["a.b"], [], "a.b", "axb") == ("a.b",)


def test_prefix_matches_everything_that_starts_so() -> None:
    """A trailing star selects every topic with that prefix."""
    assert selected(["orders.*"], [], "orders.eu", "orders.", "orders") == ("orders.", "orders.eu")


def test_regex_has_to_match_the_whole_name() -> None:
    """A part that matches is not enough."""
    assert selected(["/audit-[0-9]+/"], [], "audit-7", "audit-7b", "my-audit-7") == ("audit-7",)


def test_exclusion_wins() -> None:
    """A topic that is both included and excluded is left out."""
    assert selected(["*"], ["orders.tmp"], "orders", "orders.tmp") == ("orders",)


@pytest.mark.parametrize("include", ["*", "__consumer_offsets", "/.*/", "__*"])
def test_reserved_names_never_match(include: str) -> None:
    """Kafka's and our own topics are left out, whatever is included, and that of a schema registry is."""
    assert selected([include], [], "__consumer_offsets", "__isthmus.links", "_schemas") == ()


def test_literals_are_the_names_that_have_to_exist() -> None:
    """Only names written out and not excluded are expected on the source."""
    topics = TopicSettings(
        include=tuple(map(TopicPattern.parse, ["b", "a", "c", "d.*", "__e"])),
        exclude=(TopicPattern.parse("c"),),
    )

    assert topics.literals == ("a", "b")


@pytest.mark.parametrize("text", ["", ".", "..", "/", "//", "/(/", "a*b", "**", "a b", "orders,flights", "x" * 250])
def test_impossible_patterns_are_refused_with_a_hint(text: str) -> None:
    """What can never match a topic is an error that says what to write instead."""
    with pytest.raises(ConfigError) as caught:
        TopicPattern.parse(text)

    assert caught.value.hint


@given(patterns)
def test_pattern_survives_being_written(pattern: TopicPattern) -> None:
    """Writing a pattern and reading it back changes nothing."""
    assert TopicPattern.parse(str(pattern)) == pattern


@given(names)
def test_nothing_matches_by_default(name: str) -> None:
    """An empty filter mirrors nothing."""
    assert not TopicSettings().matches(SourceTopic(name))


@given(filters, names)
def test_a_match_is_included_and_neither_excluded_nor_reserved(topics: TopicSettings, name: str) -> None:
    """The filter agrees with its definition, taken pattern by pattern."""
    included = any(pattern.matches(name) for pattern in topics.include)
    excluded = any(pattern.matches(name) for pattern in topics.exclude)

    assert topics.matches(SourceTopic(name)) == (included and not excluded and not name.startswith("__"))


@given(filters, patterns, names)
def test_excluding_more_never_selects_more(topics: TopicSettings, pattern: TopicPattern, name: str) -> None:
    """Exclusion only takes away."""
    narrower = TopicSettings(include=topics.include, exclude=(*topics.exclude, pattern))

    assert topics.matches(SourceTopic(name)) or not narrower.matches(SourceTopic(name))


@given(filters, st.lists(names))
def test_selection_does_not_depend_on_order_or_repetition(topics: TopicSettings, topic_names: list[str]) -> None:
    """The same topics in any order, listed twice, give the same selection."""
    assert topics.select(topic_names) == topics.select([*reversed(topic_names), *topic_names])
