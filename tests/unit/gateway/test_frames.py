"""Frames that nobody should send; `make fuzz-gateway` goes on with this."""

from __future__ import annotations

import pytest

from soak.frames import converse


@pytest.mark.parametrize("first", [1, 474])
def test_whatever_comes_in_passes_or_is_refused(first: int) -> None:
    """Nothing makes a gateway fail, and where pieces end changes nothing. The second one ended in a size that no frame
    has: an answer of 2 GiB whose addresses grow.
    """
    for seed in range(first, first + 100):
        converse(seed)
