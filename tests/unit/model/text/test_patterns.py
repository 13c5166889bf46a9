"""Patterns that match nothing, and what they were probably meant for."""

from __future__ import annotations

import pytest

from isthmus.model.selection import TopicPattern
from isthmus.model.text.patterns import find_unmatched
from isthmus.model.text.suggestion import nearest

NAMES = ["orders.eu", "orders.us", "payments", "audit-17"]


def test_patterns_without_a_match() -> None:
    """Each pattern is asked for itself, in the order of the configuration."""
    patterns = [TopicPattern.parse(text) for text in ("odrers.*", "pay*", "/audit-[0-9]+/", "missing")]
    assert [str(pattern) for pattern in find_unmatched(patterns, NAMES)] == ["odrers.*", "missing"]
    assert find_unmatched(patterns, [*NAMES, "odrers.x", "missing"]) == ()


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("odrers.*", "orders.eu"),
        ("Payments", "payments"),
        ("paymnets", "payments"),
        ("/adit-[0-9]+/", "audit-17"),
        ("/ORDERS\\.eu[0-9]?/", "orders.eu"),
        ("inventory", None),
        ("*", None),
        ("/[0-9]+/", None),
    ],
)
def test_nearest_name(pattern: str, name: str | None) -> None:
    """What a prefix or an expression leaves open plays no part, nor does case."""
    assert nearest(TopicPattern.parse(pattern), NAMES) == name
    assert nearest(TopicPattern.parse(pattern), []) is None
