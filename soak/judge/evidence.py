"""What the judge knows: what both logs hold, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from soak.history import Event
from soak.judge.mapping import Pairing, Standing
from soak.judge.stored import StoredMap

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

    `keeps_offsets`: whether who copied it claims the same offsets at the target. `pairing`: where he claims every
    record once at other ones, which are which. `may_lack_aborted`: whether he says
    that he leaves aborted records out. `is_whole`: whether he says that transactions are at the target as such, before
    they have ended. `gaps` are half-open ranges of offsets
    that were reported as lost at the source. `suffered` names the faults that were done to the partition itself,
    `acked` the ids the producers were told stand at an offset, which is what is left of a source that was cut, and
    `issued` all ids that were ever sent, `foreign` those of them that others than the mirror sent to the target.
    `stored` is what the ledger says of a lane whose offsets differ.
    """

    topic: str
    partition: int
    source: Log
    target: Log
    keeps_offsets: bool = True
    may_lack_aborted: bool = False
    is_whole: bool = False
    is_compacted: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    suffered: frozenset[str] = frozenset()
    acked: Mapping[int, str] = field(default_factory=dict)
    issued: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    pairing: Pairing | None = None
    stored: StoredMap | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_told(self) -> bool:
        """Whether an offset of the target tells how much of the source is there."""
        return self.keeps_offsets or self.pairing is not None

    @property
    def held(self) -> frozenset[int]:
        """The offsets of the source whose records are at the target, by what is claimed of offsets."""
        if self.pairing is not None:
            return self.pairing.offsets
        return frozenset(record.offset for record in self.target.records)

    @property
    def begin(self) -> int:
        """Where the target begins, as an offset of the source."""
        return self.target.start if self.pairing is None or self.target.start == 0 else self.pairing.first

    @property
    def end(self) -> int:
        """Where the target ends, as an offset of the source."""
        return self.source_end(self.target.high)

    def source_end(self, target_end: int) -> int:
        """How far at the source a target is that ends there."""
        return target_end if self.pairing is None else self.pairing.source_end(target_end)

    def copied_before(self, end: int) -> int:
        """Up to where before this offset of the source something is at the target."""
        return end if self.pairing is None else self.pairing.copied_before(end)


def paired(source: Log, target: Log, acked: Mapping[int, str], *, is_compacted: bool = False) -> Pairing:
    """What is which in two logs whose offsets differ."""
    here, there = ((Standing(each.offset, each.id) for each in log.records) for log in (source, target))
    visible = source.visible - _superseded(source, target) if is_compacted else source.visible
    return Pairing(here, there, visible=visible, acked=acked, end=source.high)


def _superseded(source: Log, target: Log) -> frozenset[int]:
    """Offsets of the source whose keys have a later record that is at the target: its cleaner may have taken them."""
    copied = {each.id for each in target.records}
    later, found = set[bytes | None](), set[int]()
    for record in reversed(source.records):
        if record.key in later:
            found.add(record.offset)
        elif record.id in copied and record.offset in source.visible:
            later.add(record.key)
    return frozenset(found)


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

    @property
    def by_partition(self) -> dict[PartitionKey, Lane]:
        """The lanes by what they copy."""
        return {(lane.topic, lane.partition): lane for lane in self.lanes}

    @property
    def are_told(self) -> bool:
        """Whether offsets of the target tell how much of the source is there."""
        return all(lane.is_told for lane in self.lanes)


def fingerprint(*fields: object) -> bytes:
    """16 bytes that differ if any of the fields does."""
    return hashlib.blake2b(repr(fields).encode(), digest_size=16).digest()
