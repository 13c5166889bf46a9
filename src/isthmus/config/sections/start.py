"""The beginning of mapped topics, as people write it."""

from __future__ import annotations

import time
from typing import Final

from isthmus.errors import ConfigError
from isthmus.model.offsets import EARLIEST, LATEST
from isthmus.model.text.instant import HINT, parse_instant

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


def start_of(text: str) -> int:
    """Parse a text into `EARLIEST`, `LATEST`, or ms since the epoch.

    :raises ConfigError: It means none of these, or lies in the future.
    """
    if text in _WORDS:
        return _WORDS[text]
    now_ms = int(time.time() * 1000)
    try:
        found = parse_instant(text, now_ms=now_ms)
    except ConfigError as error:
        raise ConfigError(f"{text!r} is neither earliest nor latest nor a point in time", hint=HINT) from error
    if found > now_ms:
        raise ConfigError(f"{text!r} lies in the future", hint="Write latest to copy what comes from now on.")
    return found
