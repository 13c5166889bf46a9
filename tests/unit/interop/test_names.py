"""Lists of topics and groups as patterns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.interop.names import group_names, topic_names
from isthmus.model.selection import TopicPattern


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        (".*", ("*",)),
        ("orders", ("orders",)),
        (r"orders\.v1", ("orders.v1",)),
        (r"orders-.*", ("orders-*",)),
        (r"orders\..*", ("orders.*",)),
        ("orders.v1", ("/orders.v1/",)),
        (" a ,, b,a ", ("a", "b")),
        ("", ()),
        ("a|b", ("/a|b/",)),
        ("(a, b)", ("/(a|b)/",)),
        ("(?i)a, b", ("/(?i)a|b/",)),
        ("__consumer_offsets, __.*, a", ("a",)),
    ],
)
def test_topics_become_the_plainest_pattern(text: str, patterns: tuple[str, ...]) -> None:
    """A name stays a name, a prefix becomes one, and the rest is an expression; items that belong together stay so."""
    found = topic_names(text)

    assert found.patterns == patterns
    assert found.failed == ()


def test_what_has_no_equivalent_does_not_hide_the_rest() -> None:
    """The reason stands beside the item, and other items are translated."""
    found = topic_names(r"a, \p{IsGreek}+, *")

    assert found.patterns == ("a",)
    assert [text for text, _ in found.failed] == [r"\p{IsGreek}+", "*"]


def test_groups_keep_what_java_takes_for_digits_and_letters() -> None:
    """To Java only ASCII has digits and letters; names of groups may have others."""
    (pattern,) = group_names(r"shop-\d+").patterns

    assert pattern == r"/(?a)shop-\d+/"
    assert group_names("my group").patterns == ("my group",)
    assert group_names("/a/").patterns == ("//a//",)


NAMES = st.text("ab.-_1", min_size=1, max_size=6).filter(lambda name: not name.startswith("__"))
ITEMS = st.sampled_from(["a.*", "a", r"a\.b", "a.b", "[ab]+", "a|b.*", r"\p{Alpha}\d*", ".*", "(a|1)?b", r"\Q.\Ea"])
JAVA = {r"\p{Alpha}": "[A-Za-z]", r"\Q.\E": r"\."}


@given(NAMES, st.lists(ITEMS, max_size=4))
def test_a_list_matches_what_its_expressions_match(name: str, items: list[str]) -> None:
    """The patterns of a list match a name exactly where one of its expressions matches the whole of it."""
    plain = items
    for java, python in JAVA.items():
        plain = [item.replace(java, python) for item in plain]

    patterns = [TopicPattern.parse(pattern) for pattern in topic_names(", ".join(items)).patterns]

    assert any(pattern.matches(name) for pattern in patterns) == any(re.fullmatch(item, name) for item in plain)
