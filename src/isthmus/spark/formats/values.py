"""Values between Spark and the bytes of a format: days, times, decimals, and results of expressions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

PREFIX_BYTES: Final = 5
"""A zero and the id of the schema, before what was encoded."""
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MICROS: Final = -62_135_596_800_000_000
_LAST_MICROS: Final = 253_402_300_799_999_999
"""The first microsecond of the year 1 and the last of the year 9999, since 1970 in UTC."""
RESULT: Final = "v"
"""The only member of the JSON text that holds a result."""


class Dropped:
    """Stands for a field that is dropped."""


DROPPED: Final = Dropped()
Edits = Mapping[str, Any] | str
"""What a value becomes: a result as a whole (the JSON text of it), or, by the names of its fields, what those become:
the same again, or `DROPPED`.
"""


def result_of(text: str) -> Any:
    """Return the result of an expression that Spark has written as JSON; numbers keep all of their digits."""
    return json.loads(text, parse_float=Decimal)[RESULT]


def date_of(days: int) -> int:
    """Return days since 1970 that are a date.

    :raises ValueError: They lie before the year 1 or after the year 9999.
    """
    if not 1 <= days + _EPOCH_DAY <= date.max.toordinal():
        raise ValueError(f"the date {days} days from 1970 lies before the year 1 or after the year 9999")
    return days


def time_of(micros: int) -> int:
    """Return microseconds since 1970 that are a time.

    :raises ValueError: They lie before the year 1 or after the year 9999.
    """
    if not _FIRST_MICROS <= micros <= _LAST_MICROS:
        raise ValueError(f"the time {micros} us from 1970 lies before the year 1 or after the year 9999")
    return micros


def days_of(text: str) -> int:
    """Return the days from 1970 of a date as Spark writes it.

    :raises ValueError: It is none from the year 1 to 9999.
    """
    return date.fromisoformat(text).toordinal() - _EPOCH_DAY


def micros_of(text: str) -> int:
    """Return the microseconds from 1970 of a time as Spark writes it, in UTC or without a zone.

    :raises ValueError: It is none from the year 1 to 9999.
    """
    passed = datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def decimal_of(unscaled: int, precision: int, scale: int) -> Decimal:
    """Return a decimal by its digits.

    :raises ValueError: It has more digits than its type.
    """
    sign, digits, _ = Decimal(unscaled).as_tuple()
    if len(digits) > precision:
        raise ValueError(f"a decimal has {len(digits)} digits, and its schema {precision}")
    return Decimal((sign, digits, -scale))


def unscaled_of(value: Decimal, scale: int) -> int:
    """Return the digits of a decimal as a number.

    :raises ValueError: It has more digits behind the point.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -scale:
        raise ValueError(f"{value} has more than {scale} digits behind the point")
    number = int("".join(map(str, digits))) * int(10 ** (exponent + scale))
    return -number if sign else number
