"""Points in time as people write them: a timestamp, a date with as much of a time as they care for, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from isthmus.errors import ConfigError

HINT: Final = (
    "Write ms since the epoch (1767225600000), a date or time as RFC 3339 has it (2026-01-01, 2026-01-01T08:30, "
    "2026-01-01T08:30:00+01:00; UTC without a zone), or how long ago (90s, 30m, 2h, 7d)."
)
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DATE_TIME: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d{1,9})?))?)?"
    r"(?P<zone>[Zz]|[+-]\d\d:\d\d)?)?"
)
# Ten digits are seconds until the year 2286; as ms they would lie in the spring of 1970.
_SECONDS_DIGITS: Final = 10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def written_instant(instant_ms: int) -> str:
    """Format a timestamp as `parse_instant` accepts it too, to the second: 2026-01-01T08:30:00Z."""
    return (_EPOCH + timedelta(seconds=instant_ms // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: str, *, now_ms: int) -> int:
    """Parse a point in time into ms since the epoch; a relative one counts back from `now_ms`.

    :raises ConfigError: It means no point in time.
    """
    given = text.strip()
    if given.isdigit():
        if len(given) <= _SECONDS_DIGITS:
            raise ConfigError(f"{text!r} is no timestamp in ms: it is too short", hint=HINT)
        return int(given)
    age = _AGE.fullmatch(given)
    if age is not None:
        return now_ms - round(float(age[1]) * _UNIT_MS[age[2]])
    written = _DATE_TIME.fullmatch(given)
    if written is None:
        raise ConfigError(f"{text!r} is no point in time", hint=HINT)
    zone = "+00:00" if (written["zone"] or "Z") in "Zz" else written["zone"]
    second, _, fraction = (written["second"] or "00").partition(".")
    try:
        moment = datetime.fromisoformat(
            f"{written['date']}T{written['hour'] or '00'}:{written['minute'] or '00'}:{second}{zone}"
        )
    except ValueError as error:
        raise ConfigError(f"{text!r} is no point in time: {error}", hint=HINT) from error
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(f"{fraction:0<3}"[:3] or 0)
