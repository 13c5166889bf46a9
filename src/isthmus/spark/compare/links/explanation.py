"""Find the fields that differ in a record of both logs, by reading the two records again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

RECORD_PARTS: Final = (
    "range INT, offset BIGINT, timestamp_ms BIGINT, is_aborted BOOLEAN, "
    "key_digest BINARY, value_digest BINARY, headers_digest BINARY"
)
_FIELDS: Final = {
    "key_digest": "key",
    "value_digest": "value",
    "headers_digest": "headers",
    "timestamp_ms": "timestamp",
    "is_aborted": "visibility",
}


def differing_fields(rows: Iterable[Mapping[str, Any]]) -> dict[int, tuple[str, ...]]:
    """Return, by slice, the names of fields that differ between the record of range `2n` and that of `2n + 1`.

    Each slice is one offset. An offset for which a side has no record any more, or several, is left out.
    """
    sides: dict[int, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["range"])):
        sides.setdefault(row["range"] // 2, []).append(row)
    return {
        number: tuple(name for field, name in _FIELDS.items() if pair[0][field] != pair[1][field])
        for number, pair in sides.items()
        if [row["range"] % 2 for row in pair] == [0, 1]
    }
