"""When a letter that was refused is tried again."""

from __future__ import annotations

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
        assert refused.find(KEY, [(6, 1), (7, 2)], now) is None
        assert refused.find(("letters", 1), [(7, 1)], now) is None
        found = refused.find(KEY, [(6, 1), (7, 1)], now)
        assert found is not None
        assert (found.place, found.error) == ((7, 1), TOO_LARGE)
        while refused.find(KEY, [(7, 1)], now) is not None:
            now += 1
    assert tries < 3600 / PAUSE_MAX_S + 10


def test_another_letter_begins_with_a_short_pause() -> None:
    """It was refused for the first time."""
    refused = RefusedLetters()
    refused.note(KEY, (7, 1), TOO_LARGE, 0.0)
    refused.note(KEY, (7, 1), TOO_LARGE, 10.0)
    refused.note(KEY, (8, 1), TOO_LARGE, 20.0)
    assert refused.find(KEY, [(8, 1)], 20.0 + FIRST_PAUSE_S) is None
