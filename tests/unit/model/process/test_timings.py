"""Timings that follow from others."""

from __future__ import annotations

from isthmus.engine.engine import DEFAULT_SETTLE_S
from isthmus.groups.transaction import TIMEOUT_MS
from isthmus.ledger.pulse import BEAT_S, SILENCE_S
from isthmus.model.process.timings import USUAL


def test_usual_timings_fit_what_they_wait_for() -> None:
    """A controller is given up after five missed beats, and a commit only when no transaction of ours can hold it."""
    assert USUAL.silence_s == SILENCE_S == 5 * BEAT_S
    assert USUAL.unstable_s * 1000 == 2 * TIMEOUT_MS
    assert USUAL.calm_s > max(USUAL.follow_s, DEFAULT_SETTLE_S)


def test_usual_timings_keep_what_is_promised() -> None:
    """What is written or declared is looked at within 5 s, and a link whose controller is silent goes to another one
    within 15 s, which stands by with its clusters connected and its Spark started."""
    assert USUAL.follow_s <= 5.0
    assert USUAL.silence_s + BEAT_S <= 15.0
