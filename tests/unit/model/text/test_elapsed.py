"""Ages in words."""

from __future__ import annotations

import pytest

from isthmus.model.text.elapsed import ago


@pytest.mark.parametrize(
    ("age_s", "told"),
    [
        (0.4, "now"),
        (12.9, "12 s ago"),
        (61, "1 min ago"),
        (3_600, "1 h ago"),
        (4_800, "1 h 20 min ago"),
        (40_000, "11 h ago"),
        (90_000, "1 d 1 h ago"),
        (2_000_000, "23 d ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(age_s: float, told: str) -> None:
    """Seconds matter in the first minute, minutes in the first hours, and then no more."""
    assert ago(age_s) == told
