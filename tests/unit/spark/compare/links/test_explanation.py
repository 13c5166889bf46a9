"""What differs in a record both logs have."""

from __future__ import annotations

from typing import Any

from isthmus.spark.compare.links.explanation import differing_fields

RECORD: dict[str, Any] = {
    "offset": 7,
    "timestamp_ms": 1,
    "is_aborted": False,
    "key_digest": b"k",
    "value_digest": b"v",
    "headers_digest": b"h",
}


def row(number: int, **changes: object) -> dict[str, Any]:
    return {"range": number, **RECORD, **changes}


def test_fields_that_differ_are_named() -> None:
    """Each field under the name people know it by; a null differs from anything else."""
    rows = [row(3, value_digest=None, is_aborted=True), row(0), row(1, timestamp_ms=2, headers_digest=b"x"), row(2)]

    assert differing_fields(rows) == {0: ("headers", "timestamp"), 1: ("value", "visibility")}


def test_records_that_are_gone_or_many_are_left_out() -> None:
    """Only one record from each side can be compared."""
    assert differing_fields([row(0), row(2), row(3), row(3), row(5)]) == {}
