"""What a transform makes of records, tried on some of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from isthmus.model.links.transform import Transform
from isthmus.model.text.plain import PlainValue, computed_field

_UNSEEN = {character: f"\\x{character:02x}" for character in (*range(0x20), 0x7F)} | {0x09: "\\t", 0x0A: "\\n"}


class TrialResult(enum.StrEnum):
    """What becomes of a record."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    LEFT_OUT = "left out"
    FAILED = "failed"
    WAITING = "waits for the registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHeader:
    """A header of a record, for people to read."""

    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A record for people to read: bytes that are no text are written as `\\xff`."""

    timestamp_ms: int
    key: str | None
    value: str | None
    headers: tuple[ShownHeader, ...] = ()

    @property
    def parts(self) -> dict[str, str | None]:
        """Its parts by their paths; headers that are there several times are counted."""
        found: dict[str, str | None] = {"key": self.key, "value": self.value, "timestamp": str(self.timestamp_ms)}
        seen: Counter[str] = Counter()
        for each in self.headers:
            seen[each.key] += 1
            again = f" ({seen[each.key]})" if seen[each.key] > 1 else ""
            found[f"headers.{each.key}{again}"] = each.value
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRecord:
    """One record of the source, and what becomes of it. `after` is null unless it is copied, and `reason` why it
    fails or waits.
    """

    partition: int
    offset: int
    result: TrialResult
    before: ShownRecord
    after: ShownRecord | None = None
    reason: str | None = None

    @property
    def differences(self) -> dict[str, tuple[str | None, str | None]]:
        """The parts that differ, by their paths, before and after."""
        before, after = self.before.parts, {} if self.after is None else self.after.parts
        names = dict.fromkeys((*before, *after))
        return {
            name: (before.get(name), after.get(name))
            for name in names
            if (name in before, before.get(name)) != (name in after, after.get(name))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformTrial(PlainValue):
    """A transform of a link tried on records of one of its topics; nothing was changed. `unfound` are the fields and
    headers that its expressions read or drop, or whose fields they set, and that none of the records has.
    """

    link: str
    source: str
    topic: str
    transform: Transform
    unfound: tuple[str, ...] = ()
    records: tuple[TriedRecord, ...] = ()

    def count(self, result: TrialResult) -> int:
        """Return how many records came to this."""
        return sum(each.result is result for each in self.records)

    @computed_field(before="records")
    def counts(self) -> dict[str, int]:
        """How many records came to each result."""
        return {result.value.replace(" ", "_"): self.count(result) for result in TrialResult}


def readable(data: bytes | None) -> str | None:
    """Return bytes as a text to look at: what is no UTF-8, or cannot be seen, is escaped."""
    return None if data is None else data.decode("utf-8", "backslashreplace").translate(_UNSEEN)


def shown_record(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> ShownRecord:
    """Return a record for people to read."""
    return ShownRecord(
        timestamp_ms=timestamp_ms,
        key=readable(key),
        value=readable(value),
        headers=tuple(
            ShownHeader(key=readable(name.encode("utf-8", "surrogateescape")) or "", value=readable(held))
            for name, held in headers
        ),
    )
