"""How much is asked of the source at once."""

from __future__ import annotations

from isthmus.lane.reader import RESPONSE_BYTES, RESPONSE_BYTES_FAR, next_bytes


def grown(took_s: float, *, start: int = RESPONSE_BYTES) -> int:
    """What is asked for after many full answers that took so long."""
    size = start
    for _ in range(10):
        size = next_bytes(size, size, took_s)
    return size


def test_answers_grow_where_they_take_long_to_come() -> None:
    """A far source is asked for more at once, a near one is not, and one that came nearer for less again."""
    assert grown(0.003) == RESPONSE_BYTES
    assert grown(0.1) == RESPONSE_BYTES_FAR
    assert grown(0.01, start=RESPONSE_BYTES_FAR) == RESPONSE_BYTES


def test_answers_do_not_grow_on_a_narrow_line() -> None:
    """Where a megabyte takes seconds, more of them at once would only be late: then a time-out may be near."""
    assert grown(3.0) == RESPONSE_BYTES
    assert grown(3.0, start=RESPONSE_BYTES_FAR) == RESPONSE_BYTES
