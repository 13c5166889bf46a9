"""Times of records where clocks of producers differ: what was seen of them, and what a group has read by them."""

from __future__ import annotations

import random

import pytest

from isthmus.groups.positions.clocks import REMEMBERED_S, TimesSeen, read_until

HOUR = 3_600_000
MARGIN = 60_000
NOW = 100 * HOUR


def test_a_record_that_is_older_than_one_before_it_is_late() -> None:
    """In whatever order they are looked at: by how much it is behind the newest one before it."""
    seen = TimesSeen()
    for offset, time_ms in ((10, 1_000), (11, 1_500), (20, 2_000)):
        seen.see(offset, time_ms, 0.0)
        seen.see(offset, time_ms, 0.0)
    assert seen.late_ms(0.0) == 0, "they are in order"
    seen.see(15, 1_200, 0.0)
    assert seen.late_ms(0.0) == 0, "it lies before the newest"
    seen.see(21, 1_400, 0.0)
    assert seen.late_ms(0.0) == 600
    seen.see(5, 2_700, 0.0)
    assert seen.late_ms(0.0) == 700


def test_that_a_record_was_late_counts_for_an_hour() -> None:
    """From the last one on that was about as late; a little lateness later does not make it longer."""
    seen = TimesSeen()
    seen.see(1, HOUR, 0.0)
    seen.see(2, 0, 0.0)
    assert seen.late_ms(REMEMBERED_S - 1) == HOUR
    seen.see(3, HOUR // 2, REMEMBERED_S - 1)
    assert seen.late_ms(REMEMBERED_S + 1) == HOUR
    seen.see(4, HOUR - 1, REMEMBERED_S + 1)
    assert seen.late_ms(2 * REMEMBERED_S - 1) == 0


@pytest.mark.parametrize(
    ("record_ms", "late_ms", "is_end", "until"),
    [
        (NOW, 0, False, NOW - MARGIN),
        (NOW, MARGIN, False, NOW - MARGIN),
        (NOW, HOUR, False, NOW - MARGIN - HOUR),
        (NOW, HOUR, True, NOW - MARGIN - HOUR),
        (NOW + MARGIN, 0, False, NOW - MARGIN),
        (NOW + HOUR, 0, False, None),
        (NOW + HOUR, 0, True, NOW - MARGIN),
        (NOW + HOUR, HOUR, False, NOW - MARGIN),
        (0, 0, True, 0),
    ],
    ids=["usual", "within", "behind", "behind-end", "little-ahead", "ahead", "ahead-end", "ahead-seen", "no-record"],
)
def test_what_was_read_goes_back_by_what_clocks_differ(
    record_ms: int, late_ms: int, is_end: bool, until: int | None
) -> None:
    """Beside the margin, if it is more than that; a time that lies in the future says nothing of a record that was not
    read.
    """
    assert read_until(record_ms, now_ms=NOW, margin_ms=MARGIN, late_ms=late_ms, is_end=is_end) == until


def test_where_a_group_stands_at_a_time_ahead_it_does_not_move_by_waiting() -> None:
    """It has read nothing meanwhile."""
    times = [read_until(NOW + HOUR, now_ms=NOW + waited, margin_ms=MARGIN) for waited in range(0, HOUR // 2, MARGIN)]
    assert {*times} == {None}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_skipped_once_clocks_are_known(seed: int) -> None:
    """Two logs of the same messages, in other orders, by producers whose clocks differ by an hour: behind the first
    message of the other log that is not older lies all that was not read.
    """
    rng = random.Random(seed)
    skews = [0, -HOUR, HOUR // 2]
    made = sorted((rng.randrange(NOW - 2 * HOUR, NOW), number % 3) for number in range(120))
    messages = [(at, at + skews[who], number) for number, (at, who) in enumerate(made)]
    here, there = (sorted(messages, key=lambda one: one[0] + rng.randrange(MARGIN)) for _ in range(2))
    seen = TimesSeen()
    for offset, (_, time_ms, _) in enumerate(here):
        seen.see(offset, time_ms, 0.0)
    for position in range(len(here)):
        until = read_until(here[position][1], now_ms=NOW + HOUR, margin_ms=MARGIN, late_ms=seen.late_ms(0.0))
        assert until is not None
        begin = next(place for place, (_, time_ms, _) in enumerate(there) if time_ms >= until)
        assert {number for *_, number in here[position:]} <= {number for *_, number in there[begin:]}
