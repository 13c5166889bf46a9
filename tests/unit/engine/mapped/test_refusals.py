"""When a letter that was refused is tried again."""

from __future__ import annotations

import pytest

from isthmus.engine.mapped.refusals import FIRST_PAUSE_S, PAUSE_MAX_S, RefusedLetters
from isthmus.errors import BrokerRefused

KEY = ("letters", 0)
TOO_LARGE = BrokerRefused("it is too large", code=10, name="MESSAGE_TOO_LARGE")


def test_a_refused_letter_is_tried_ever_less_often() -> None:
    """Each try leaves a marker in the log; other letters, and other partitions, do not wait for it."""
    refused, now, tries = RefusedLetters(), 0.0, 0
    while now < 3600:
        refused.note(KEY, (7, 1), TOO_LARGE, now)
        tries += 1
        refused.check(KEY, [(6, 1), (7, 2)], now)
        refused.check(("letters", 1), [(7, 1)], now)
        with pytest.raises(BrokerRefused, match="too large"):
            refused.check(KEY, [(6, 1), (7, 1)], now)
        while True:
            now += 1
            try:
                refused.check(KEY, [(7, 1)], now)
            except BrokerRefused:
                continue
            break
    assert tries < 3600 / PAUSE_MAX_S + 10


def test_another_letter_begins_with_a_short_pause() -> None:
    """It was refused for the first time."""
    refused = RefusedLetters()
    refused.note(KEY, (7, 1), TOO_LARGE, 0.0)
    refused.note(KEY, (7, 1), TOO_LARGE, 10.0)
    refused.note(KEY, (8, 1), TOO_LARGE, 20.0)
    refused.check(KEY, [(8, 1)], 20.0 + FIRST_PAUSE_S)
