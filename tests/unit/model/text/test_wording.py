"""How numbers and many names are written in what people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.text.wording import first_few, format_count


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 records"),
        (1, "1 record"),
        (2, "2 records"),
        (1200, "1,200 records"),
        (1.0, "1 record"),
        (1.04, "1 record"),
        (0.5, "0.5 records"),
        (1 / 24, "0.042 records"),
        (0.0, "0 records"),
        (0.999, "1 record"),
        (1234.56, "1,234.6 records"),
    ],
)
def test_one_is_singular_and_all_else_plural(count: float, told: str) -> None:
    """Whatever is shown as 1 is one thing; thousands are set apart."""
    assert format_count(count, "record") == told


def test_verbs_agree_too() -> None:
    """What follows a number may be more than a noun."""
    assert format_count(1, "batch is", "batches are") == "1 batch is"
    assert format_count(3, "batch is", "batches are") == "3 batches are"


@given(st.integers(min_value=0))
def test_no_digit_is_lost(count: int) -> None:
    """A whole number can be read back."""
    assert int(format_count(count, "record").split()[0].replace(",", "")) == count


def test_of_many_names_the_first_are_told() -> None:
    """And how many more there are; no more than asked for."""
    assert first_few([]) == ""
    assert first_few("abc") == "a, b, c"
    assert first_few("abcd") == "a, b, c and 1 more"
    assert first_few((str(each) for each in range(1202)), 2) == "0, 1 and 1,200 more"
