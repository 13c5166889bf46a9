"""What whoever changes filters is asked before patterns count no longer."""

from __future__ import annotations

import pytest

from isthmus.cli.links.filters import consequence
from isthmus.fabric.answers import Filters


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (Filters(topics_include=("b",)), "have a count no longer (--add keeps that)"),
        (Filters(topics_include=()), "have a count no longer, and have it mirror no topic at all"),
        (Filters(groups_include=()), "have a count no longer"),
        (Filters(groups_include=(), configs_exclude=("x",)), "have a count no longer (--add keeps that)"),
    ],
)
def test_what_is_emptied_is_said_to_be(given: Filters, asked: str) -> None:
    """There is nothing that --add could put beside it; without any pattern of topics the link has nothing to do."""
    assert consequence(given, ["a"]) == asked
