"""How many topics may go at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.topics.sourcedeletion import Departures

_COUNT = st.integers(0, 1000)


@pytest.mark.parametrize(
    ("there", "gone", "recent", "is_usual"),
    [
        (1, 1, 0, True),
        (0, 1, 0, False),
        (7, 2, 0, True),
        (7, 1, 1, True),
        (5, 2, 0, False),
        (5, 1, 1, False),
        (300, 100, 0, True),
        (299, 101, 0, False),
    ],
)
def test_single_topics_go_and_not_most_of_them(there: int, gone: int, recent: int, is_usual: bool) -> None:
    """One may always go while another is there; else at most every fourth, with those of the last hour."""
    assert Departures(there=there, gone=gone, recent=recent).is_usual is is_usual


@given(_COUNT, _COUNT, _COUNT)
def test_a_source_without_any_of_them_is_never_usual(there: int, gone: int, recent: int) -> None:
    """Nor does it get usual by more that go."""
    found = Departures(there=there, gone=gone, recent=recent)
    assert not Departures(there=0, gone=gone, recent=recent).is_usual
    if not found.is_usual and there:
        assert not Departures(there=max(there - 1, 0), gone=gone + 1, recent=recent).is_usual
