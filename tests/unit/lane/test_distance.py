"""What the time that answers take tells of where a cluster is."""

from __future__ import annotations

from isthmus.lane.distance import RESPONSE_BYTES, RESPONSE_BYTES_FAR, TargetDistance, next_bytes


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


def told(*waits_s: float, size_bytes: int = 0) -> TargetDistance:
    """A target whose requests, each alone and a tenth of a second after the one before, took so long."""
    distance = TargetDistance()
    for number, wait_s in enumerate(waits_s):
        distance.answered(wait_s, size_bytes, number / 10)
    return distance


def test_a_target_is_far_if_it_never_answers_soon() -> None:
    """One soon answer among the last ones is enough to be near; the bytes of large requests take their time."""
    assert told(*[0.05] * 20).far_s == 0.05
    assert told(*[0.05] * 20).worth_bytes == 2_500_000
    assert told(*[0.05] * 15, 0.001).far_s == 0
    assert told(*[0.05] * 15, 0.001).worth_bytes == 0
    assert told(0.001, *[0.05] * 16).far_s == 0.05
    assert told(*[0.008] * 20, size_bytes=1 << 20).far_s == 0


def test_requests_are_alone_until_a_target_is_known_and_now_and_then_again() -> None:
    """A few answers tell, then one every some seconds; until they have the target counts as near."""
    assert told(*[0.05] * 7).is_unsure(0.7)
    assert told(*[0.05] * 7).far_s == 0
    assert not told(*[0.05] * 8).is_unsure(0.8)
    assert told(*[0.05] * 8).is_unsure(6.0)
