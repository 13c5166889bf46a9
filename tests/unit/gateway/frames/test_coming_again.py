"""What a producer was told to send again keeps what stands behind it from passing, where sequences begin again too."""

from __future__ import annotations

import pytest

from isthmus.gateway.frames.comingagain import ComingAgain
from isthmus.gateway.frames.walking import BatchWritten


@pytest.mark.parametrize(
    ("first", "sequence", "is_behind"),
    [(5, 15, True), (5, 5, False), (15, 5, False), (0x7FFFFFFB, 4, True), (4, 0x7FFFFFFB, False)],
)
def test_nothing_passes_that_stands_behind_what_comes_again(first: int, sequence: int, is_behind: bool) -> None:
    """The batch itself passes, and so does what stands before it; behind the largest sequence comes 0."""
    again = ComingAgain()
    again.refuse([written(first)], {}, 0.0)
    assert again.precedes([written(sequence)], 1.0) is is_behind
    assert not again.precedes([written(sequence)._replace(producer_epoch=2)], 1.0)


def written(sequence: int) -> BatchWritten:
    """A batch of a producer."""
    return BatchWritten("orders", 0, 10, False, producer_id=7, producer_epoch=1, base_sequence=sequence)
