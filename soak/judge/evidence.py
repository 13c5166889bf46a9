"""What the judge knows: what both logs hold, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from soak.history import Event

PartitionKey = tuple[str, int]


class Seen(NamedTuple):
    """A record as a consumer sees it. `content` is a digest of key, value, headers and timestamp with its type, `key`
    one of the key; `is_sound` tells whether the record agrees with the digest it carries.
    """

    offset: int
    id: str | None
    content: bytes
    key: bytes | None
    is_null: bool
    is_sound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One partition in one cluster: its ends, every record, and the offsets that read_committed consumers see."""

    start: int
    stable: int
    high: int
    records: tuple[Seen, ...]
    visible: frozenset[int]


NO_LOG = Log(start=0, stable=0, high=0, records=(), visible=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A partition on both sides.

    `keeps_offsets`: whether who copied it claims the same offsets at the target. `may_lack_aborted`: whether it says
    that it leaves aborted records out. `gaps` are half-open ranges of offsets
    that were reported as lost at the source. `suffered` names the faults that were done to the partition itself,
    `acked` the ids the producers were told stand at an offset, which is what is left of a source that was cut, and
    `issued` all ids that were ever sent.
    """

    topic: str
    partition: int
    source: Log
    target: Log
    keeps_offsets: bool = True
    may_lack_aborted: bool = False
    is_compacted: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    suffered: frozenset[str] = frozenset()
    acked: Mapping[int, str] = field(default_factory=dict)
    issued: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that does not hold: where, in words, and the offsets (or what else) that show it."""

    invariant: str
    where: str
    message: str
    witnesses: tuple[Any, ...] = ()

    def __str__(self) -> str:
        shown = f": {', '.join(map(str, self.witnesses))}" if self.witnesses else ""
        return f"{self.invariant} {self.where}: {self.message}{shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything there is to judge a run by."""

    events: tuple[Event, ...]
    lanes: tuple[Lane, ...]

    def of(self, *kinds: str) -> list[Event]:
        """The events of some kinds, in order."""
        return [event for event in self.events if event["kind"] in kinds]


def fingerprint(*fields: object) -> bytes:
    """16 bytes that differ if any of the fields does."""
    return hashlib.blake2b(repr(fields).encode(), digest_size=16).digest()
