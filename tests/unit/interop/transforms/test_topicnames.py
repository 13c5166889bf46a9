"""Predicates on names at the target as patterns of topics at the source."""

from __future__ import annotations

import pytest

from isthmus.interop.expressions import NoEquivalent
from isthmus.interop.transforms.routing import TargetNames
from isthmus.interop.transforms.topicnames import regex_of, source_patterns

EAST = TargetNames("east.")


@pytest.mark.parametrize(
    ("java", "patterns"),
    [
        (r"east\.orders", ("orders",)),
        ("^east.orders.*$", ("orders*",)),
        (r"e.st\.(a|b)", ("/(a|b)/",)),
        (".*", ("*",)),
        (".*orders", ("/.*orders/",)),
        ("east.+", ("*",)),
        (r"east\.a{1,2}|.*-private|west\.x", ("/a{1,2}/", "/.*-private/")),
        ("orders.*", ()),
    ],
)
def test_what_stands_before_names_is_taken_off(java: str, patterns: tuple[str, ...]) -> None:
    """A predicate sees names as MirrorMaker 2 writes them."""
    assert source_patterns(java, EAST) == patterns


def test_names_that_are_the_same_need_no_change() -> None:
    """By the identity policy."""
    assert source_patterns("orders.*|audit", TargetNames("")) == ("orders*", "audit")


@pytest.mark.parametrize("java", [".*st.*", ".*t\\.orders", "(east|west)\\.x", "eas?t.*", ".*[a-z]+", "east\\.?x"])
def test_what_may_match_within_the_beginning_is_no_pattern(java: str) -> None:
    """The text does not show which topics those are."""
    with pytest.raises(NoEquivalent):
        source_patterns(java, EAST)


def test_names_with_an_end_of_their_own_are_no_patterns() -> None:
    """A router has put it there."""
    with pytest.raises(NoEquivalent):
        source_patterns(".*", TargetNames("", "-copy"))


def test_patterns_are_expressions_of_python() -> None:
    """A prefix and a name as well."""
    assert [regex_of(each) for each in ("a.b", "a.*", "/x|y/")] == [r"a\.b", r"a\..*", "(?:x|y)"]
