"""Points in time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.text.instant import parse_instant, written_instant

NOW_MS = 1_795_255_712_762


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T08", 1_767_254_400_000),
        ("2026-01-01T08:30", 1_767_256_200_000),
        ("2026-01-01 08:30:15", 1_767_256_215_000),
        ("2026-01-01T08:30:15.25Z", 1_767_256_215_250),
        ("2026-01-01T08:30:15.123456789Z", 1_767_256_215_123),
        ("2026-01-01T08:30:15+01:00", 1_767_252_615_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("90s", NOW_MS - 90_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("7d", NOW_MS - 7 * 86_400_000),
        ("250 ms", NOW_MS - 250),
    ],
)
def test_forms(text: str, expected_ms: int) -> None:
    """A timestamp, a date with as much of a time as given (UTC unless it says otherwise), or how long ago."""
    assert parse_instant(text, now_ms=NOW_MS) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026",
        "2026-13-01",
        "2026-01-01T25",
        "1767225600",
        "2 weeks",
        "-5",
        "08:30",
        "²",
        "5 M",
        "5min",
    ],
)
def test_what_is_no_point_in_time(text: str) -> None:
    """Anything else is refused with the forms that work; seconds since the epoch are not taken for ms."""
    with pytest.raises(ConfigError) as refusal:
        parse_instant(text, now_ms=NOW_MS)
    assert "RFC 3339" in refusal.value.hint


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_whatever_python_writes_is_read(moment: datetime) -> None:
    """The ISO form of a moment means its ms since the epoch."""
    expected_ms = int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000

    assert parse_instant(moment.isoformat(), now_ms=0) == expected_ms


def test_what_is_written_can_be_read() -> None:
    """Timestamps are shown to the second, as they may be given."""
    assert written_instant(NOW_MS) == "2026-11-21T10:08:32Z"
    assert parse_instant(written_instant(NOW_MS), now_ms=0) == NOW_MS // 1000 * 1000
