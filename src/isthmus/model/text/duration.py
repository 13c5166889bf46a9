"""How long something may take, as people write it: 30s, 5m, 1h30m."""

from __future__ import annotations

import re
from typing import Final

from isthmus.errors import ConfigError

HINT: Final = "Write how long: 500ms, 30s, 5m, 1h30m, 2d; a plain number is seconds."
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SECONDS: Final = re.compile(r"\d+(?:\.\d+)?")


def parse_duration(text: str) -> float:
    """Parse a duration into seconds.

    :raises ConfigError: It means no length of time.
    """
    given = text.replace(" ", "")
    if _SECONDS.fullmatch(given):
        return float(given)
    if not given or _PART.sub("", given):
        raise ConfigError(f"{text!r} is no length of time", hint=HINT)
    return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(given))
