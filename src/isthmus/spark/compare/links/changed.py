"""Compares what a transform makes of a slice of the source with the copies that the map names. Pure.

Both sides come in the order of the source's offsets, so that one pass is enough, and nothing is kept but findings.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Delayed, Failure
from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.links.transform import OnError
from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind, NotCompared
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.links.assembly import FINDINGS_MAX

_FIELDS: Final = ("key", "value", "headers", "timestamp")


class ChangedSlice(NamedTuple):
    """A part of a partition whose records were changed by the transform with this digest, failures of which are treated
    as `on_error`. Of the target only the records in `ranges` count. All records of the source before `copied_to` are
    copied or left out. If the source's log is `compacted`, records that were copied may be gone. `letters` are the
    places of the dead letters among its records, offset and leader epoch of each, unless those are `unread`, for that
    reason. In a second comparison, for the keys of what is missing, `lacking` are the packed offsets that the first one
    found so.
    """

    number: int
    transform: str
    on_error: OnError
    source_alias: str
    source: OffsetRange
    target_alias: str
    target: OffsetRange
    ranges: tuple[MappedRange, ...]
    copied_to: int
    compacted: bool = False
    letters: frozenset[tuple[int, int]] = frozenset()
    unread: str = ""
    lacking: bytes = b""


class MissingRecord(NamedTuple):
    """A record that the target lacks, as the transform makes it, at its offset in the source; without a key if it was
    not made.
    """

    offset: int
    key: bytes | None
    is_tombstone: bool


@dataclass(frozen=True, slots=True)
class ChangedFindings:
    """The result for a slice: its committed records at the source and their size, what of them the transform leaves out
    (`filtered`, `skipped`), how many more are `aborted`, and how many copies the source does not have any more
    (`cleaned`). `totals` are by kind, of which `findings` are the first. `not_compared` offsets are unknown; the first
    of them are `uncompared`. At `unsteady_at` (-1 for none) the transform made another record when it was asked again.
    The offsets of all missing records are `lacking`, packed.
    """

    records: int = 0
    aborted: int = 0
    size_bytes: int = 0
    read_bytes: int = 0
    filtered: int = 0
    skipped: int = 0
    cleaned: int = 0
    totals: dict[DiscrepancyKind, int] = field(default_factory=dict)
    findings: tuple[Discrepancy, ...] = ()
    not_compared: int = 0
    uncompared: tuple[NotCompared, ...] = ()
    unsteady_at: int = -1
    lacking: bytes = b""


def unknown(span: OffsetRange, reason: str) -> ChangedFindings:
    """Return the result for a slice that cannot be compared."""
    begin, end = span.offset_begin, span.offset_end
    return ChangedFindings(
        not_compared=end - begin, uncompared=(NotCompared(offset_begin=begin, offset_end=end, reason=reason),)
    )


def pack_offsets(offsets: Sequence[int]) -> bytes:
    """Pack offsets, which must be in order: about a byte for each, and next to nothing for runs."""
    return zlib.compress(np.diff(np.array(offsets, np.int64), prepend=0).tobytes()) if offsets else b""


def unpack_offsets(packed: bytes) -> list[int]:
    """Return the offsets that `pack_offsets` was given."""
    return np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64)).tolist() if packed else []


class CopyChecker:
    """Compares the records of one slice with `copies`: the target's records in the order of their offsets, which are
    those of the source. Give it all records of the source in their order, then have it `finish`.

    `missing` are those that the target lacks, to be taken away at any time; in a second comparison exactly those that
    the first one found missing, whatever the transform makes of them now. In the spans of `aborted` the source has
    nothing that could have been copied; each has to be there before the first record behind it is given.
    """

    def __init__(self, part: ChangedSlice, copies: Iterator[Record], aborted: deque[tuple[int, int]]) -> None:
        self.missing: list[MissingRecord] = []
        self.records = 0
        self._aborted = aborted
        self._lacking: list[int] = []
        self._not_listed = dict.fromkeys(unpack_offsets(part.lacking))
        self._taken_to = part.source.offset_begin
        self._part = part
        self._copies = copies
        self._next = next(copies, None)
        self._counts: Counter[str] = Counter()
        self._totals: Counter[DiscrepancyKind] = Counter()
        self._findings: dict[DiscrepancyKind, list[Discrepancy]] = {kind: [] for kind in DiscrepancyKind}
        self._uncompared: list[NotCompared] = []
        self._unsteady_at = -1

    def take(self, offset: int, epoch: int, made: Changed) -> DiscrepancyKind | None:
        """Compare what the transform made of the source's next record, which has this leader epoch; return the kind of
        what was found.
        """
        self._pass_to(offset)
        self.records += 1
        self._taken_to = offset + 1
        copy = None
        if self._next is not None and self._next.offset == offset:
            copy, self._next = self._next, next(self._copies, None)
        if (offset, epoch) in self._part.letters:
            # It stays a letter, whatever the transform would make of it now.
            self._counts["skipped"] += 1
            return None if copy is None else self._note(DiscrepancyKind.EXTRA, offset)
        if isinstance(made, Record):
            return self._compare(offset, made, copy)
        if isinstance(made, Failure) and self._part.on_error is OnError.STOP:
            return self._take_stop(offset, f"the transform fails for it now: {made.reason}", copy)
        if isinstance(made, Delayed):
            return self._take_stop(offset, f"it cannot be made again now: {made.reason}", copy)
        if copy is not None:
            return self._note(DiscrepancyKind.EXTRA, offset)
        if isinstance(made, Failure) and self._part.on_error is OnError.DEAD_LETTER:
            return self._take_absent(offset, MissingRecord(offset, None, is_tombstone=False))
        self._counts["filtered" if made is None else "skipped"] += 1
        return None

    def note_unsteady(self, offset: int) -> None:
        """Note that the transform made another record of this one when it was asked again."""
        if self._unsteady_at < 0:
            self._unsteady_at = offset

    def finish(self, failure: str = "") -> ChangedFindings:
        """Return the result, without what was read, once all records of the source were given; or those before a
        `failure`, for which the rest cannot be compared.
        """
        end = self._part.source.offset_end
        if failure:
            self._counts["not_compared"] += end - self._taken_to
            self._uncompared.append(NotCompared(offset_begin=self._taken_to, offset_end=end, reason=failure))
        else:
            self._pass_to(end)
        self.missing += [MissingRecord(offset, None, is_tombstone=False) for offset in self._not_listed]
        self._not_listed.clear()
        return ChangedFindings(
            records=self.records,
            filtered=self._counts["filtered"],
            skipped=self._counts["skipped"],
            cleaned=self._counts["cleaned"],
            totals=dict(self._totals),
            findings=tuple(each for found in self._findings.values() for each in found[:FINDINGS_MAX]),
            not_compared=self._counts["not_compared"],
            uncompared=tuple(self._uncompared),
            unsteady_at=self._unsteady_at,
            lacking=pack_offsets(self._lacking),
        )

    def _pass_to(self, offset: int) -> None:
        """Take the copies before this offset: the source has no records there."""
        while self._next is not None and self._next.offset < offset:
            at = self._next.offset
            while self._aborted and self._aborted[0][1] <= at:
                self._aborted.popleft()
            is_aborted = bool(self._aborted) and self._aborted[0][0] <= at
            if self._part.compacted and not is_aborted:
                self._counts["cleaned"] += 1
            else:
                self._note(DiscrepancyKind.EXTRA, at)
            self._next = next(self._copies, None)

    def _compare(self, offset: int, made: Record, copy: Record | None) -> DiscrepancyKind | None:
        if copy is None:
            return self._take_absent(
                offset, MissingRecord(offset, made.key, made.key is not None and made.value is None)
            )
        fields = tuple(name for name in _FIELDS if _part_of(made, name) != _part_of(copy, name))
        return self._note(DiscrepancyKind.DIFFERENT, offset, fields) if fields else None

    def _take_stop(self, offset: int, reason: str, copy: Record | None) -> DiscrepancyKind | None:
        """Take a record before which its lane would stop now."""
        if copy is None and offset >= self._part.copied_to:
            return self._take_absent(offset, MissingRecord(offset, None, is_tombstone=False))
        self._note_unknown(offset, reason)
        return None

    def _take_absent(self, offset: int, record: MissingRecord) -> DiscrepancyKind | None:
        """Take a record that the target should have, and lacks."""
        if self._part.unread and offset < self._part.copied_to:
            self._note_unknown(offset, f"the target lacks it, and it may be a dead letter: {self._part.unread}")
            return None
        self._lacking.append(offset)
        if not self._part.lacking:
            self.missing.append(record)
        elif offset in self._not_listed:
            del self._not_listed[offset]
            self.missing.append(record)
        return self._note(DiscrepancyKind.MISSING, offset)

    def _note_unknown(self, offset: int, reason: str) -> None:
        self._counts["not_compared"] += 1
        if len(self._uncompared) < FINDINGS_MAX:
            self._uncompared.append(NotCompared(offset_begin=offset, offset_end=offset + 1, reason=reason))

    def _note(self, kind: DiscrepancyKind, offset: int, fields: tuple[str, ...] = ()) -> DiscrepancyKind:
        self._totals[kind] += 1
        found = self._findings[kind]
        last = found[-1] if found else None
        if last is not None and last.offset_end == offset:
            found[-1] = replace(last, offset_end=offset + 1, records=last.records + 1)
        elif len(found) <= FINDINGS_MAX:
            # One more than is shown, so that the last one shown does not grow.
            found.append(Discrepancy(kind=kind, offset_begin=offset, offset_end=offset + 1, records=1, fields=fields))
        return kind


def is_same_outcome(one: Changed, other: Changed) -> bool:
    """Return whether a transform decided the same about a record."""
    if isinstance(one, Record) and isinstance(other, Record):
        return all(_part_of(one, name) == _part_of(other, name) for name in _FIELDS)
    return type(one) is type(other)


def _part_of(record: Record, name: str) -> object:
    held = getattr(record, name)
    return tuple(map(tuple, held)) if name == "headers" else held
