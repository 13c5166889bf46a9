"""Until when something is tried."""

from __future__ import annotations

import time

from isthmus.deadline import Deadline


def test_a_term_ends() -> None:
    """What is left shrinks to nothing, never below, and the deadline has passed by then."""
    deadline = Deadline(0.01)
    assert 0 < deadline.left_s <= 0.01 or deadline.has_passed

    while not deadline.has_passed:
        time.sleep(deadline.left_s)

    assert deadline.left_s == 0


def test_no_term_is_over_at_once() -> None:
    """A term of nothing leaves one try."""
    assert Deadline(0.0).has_passed
    assert Deadline(-1.0).left_s == 0


def test_a_pause_may_be_too_long() -> None:
    """Who would come too late need not wait at all."""
    deadline = Deadline(60.0)

    assert not deadline.passes_within(1.0)
    assert deadline.passes_within(61.0)
