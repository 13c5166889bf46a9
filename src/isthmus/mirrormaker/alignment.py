"""Find by content which records of a partition another program copied: compare the end of the target's log with the
source.

MirrorMaker 2 copies records in the order of the source and passes each on as it is. When it is started again it goes
back to the last position it had committed and copies from there once more. So the first copies lie at the target in
the order of the source, and whatever else is there repeats one of them. `Alignment` walks both logs at once: a record
of the target that is the next one of the source is its first copy; another one that was seen before is a repetition;
anything else does not come from the source as it is now. Records that are alike to the byte, timestamp included, are
taken as one another: of those it never matters which one was copied.

In a compacted topic the last record of each key counts. So the copy goes on behind the target's last record there, be
it a repetition: what follows it at the source has to follow it at the target. And a record that was claimed is missing
if it is the source's last one of its key and the target does not have it, whatever the cleaner may have taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.model.translation import MappedRange

_NAMED_MAX: Final = 3


class SourceRecord(NamedTuple):
    """A record of the source: its offset and a digest of its whole content. Aborted ones may have been copied, or not.

    `key` is a digest of its key if the target is compacted, b"" if it has none.
    """

    offset: int
    content: bytes
    is_aborted: bool = False
    key: bytes = b""
    is_tombstone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The history of both logs. `claimed` is the source offset up to which the other program says it has copied.

    `target_lost_beginning`: the target's log was read from its start, and something was deleted before that.
    `source_lost_beginning`: the same of the source. Of a compacted log anything may be missing.
    """

    claimed: int
    source_begin: int
    target_lost_beginning: bool = False
    source_lost_beginning: bool = False
    is_source_compacted: bool = False
    is_target_compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """The result of the comparison. The copy continues at the source offset `begin`: every committed record before it,
    from the first range on, lies where `ranges` say.

    `beyond` counts copies at or behind what was claimed, `repeated` those that are there once more, `aborted` those of
    records that were aborted, `cleaned` what compaction has taken from the source since. `earlier` lie before the first
    one that is known. `missing` counts what was claimed and is not there, the first at `first_missing`. Of `foreign`
    records, which are none of the source's, `foreign_at` has the first offsets.

    `repeated_to` is the source offset behind the target's last record, if that is a repetition and nothing is to be
    copied again; else -1.
    """

    begin: int
    ranges: tuple[MappedRange, ...]
    beyond: int = 0
    repeated: int = 0
    aborted: int = 0
    cleaned: int = 0
    earlier: int = 0
    missing: int = 0
    first_missing: int = -1
    foreign: int = 0
    foreign_at: tuple[int, ...] = ()
    repeated_to: int = -1

    @property
    def is_sound(self) -> bool:
        """Whether all records at the target are explained, and all claimed records are there."""
        return not self.missing and not self.foreign


class Alignment:
    """Both logs side by side. Feed it records of the source while it `is_hungry`, then the next one of the target.

    `source_ended` marks the end of the source. Take the `result` once, at the end of the target.
    """

    def __init__(self, circumstances: Circumstances) -> None:
        self._given = circumstances
        self._ahead: deque[SourceRecord] = deque()
        self._committed_ahead = 0
        self._last_read = circumstances.source_begin - 1
        self._has_ended = False
        self._known: dict[bytes, int] = {}
        self._aborted: set[bytes] = set()
        self._absent: dict[bytes, SourceRecord] = {}
        self._position = self._copied_last = circumstances.source_begin
        self._ranges: list[MappedRange] = []
        self._room_used = 0
        self._beyond = self._repeated = self._were_aborted = self._cleaned = self._earlier = self._foreign = 0
        self._foreign_at: list[int] = []

    @property
    def is_hungry(self) -> bool:
        """Whether records of the source are needed to go on."""
        if self._has_ended:
            return False
        given = self._given
        needs_claimed = given.target_lost_beginning and not self._ranges and self._last_read < given.claimed - 1
        return given.is_target_compacted or needs_claimed or not self._committed_ahead

    @property
    def lacks_claimed(self) -> bool:
        """Whether more of the source has to be read to find which claimed records are missing."""
        return not self._has_ended and self._last_read < self._given.claimed - 1

    def feed(self, records: Iterable[SourceRecord]) -> None:
        """Take the next records of the source, in order."""
        for record in records:
            self._ahead.append(record)
            self._committed_ahead += not record.is_aborted
            self._last_read = record.offset

    def source_ended(self) -> None:
        """Mark the end of the source."""
        self._has_ended = True

    def take(self, offset: int, content: bytes, key: bytes = b"") -> None:
        """Take the next record of the target, with the digest of its key if the target is compacted."""
        self._pass_aborted()
        if self._ahead and self._ahead[0].content == content:
            self._match(offset)
        elif content in self._aborted:
            self._aborted.discard(content)
            self._were_aborted += 1
            self._copied_last = self._known[content]
        elif content in self._known:
            self._repeated += 1
            self._copied_last = self._known[content]
            if key in self._absent and self._absent[key].content == content:
                del self._absent[key]
        elif not self._skip_to(offset, content):
            self._explain(offset, content)

    def result(self) -> Aligned:
        """Return the result, after all records of the target were taken."""
        given = self._given
        self._pass_aborted()
        missing = self._missing()
        farthest = max(self._position, given.claimed)
        behind_last = max(min(self._position, self._copied_last), given.claimed)
        is_table = given.is_source_compacted or given.is_target_compacted
        begin = behind_last if is_table else farthest
        return Aligned(
            begin=begin,
            ranges=tuple(_before(begin, self._ranges)),
            beyond=self._beyond,
            repeated=self._repeated,
            aborted=self._were_aborted,
            cleaned=self._cleaned,
            earlier=self._earlier,
            missing=len(missing),
            first_missing=missing[0] if missing else -1,
            foreign=self._foreign,
            foreign_at=tuple(self._foreign_at),
            repeated_to=behind_last if behind_last < begin else -1,
        )

    def _missing(self) -> list[int]:
        """Return the source offsets of claimed records that are missing."""
        given = self._given
        if given.target_lost_beginning and not self._ranges:
            return []
        if not given.is_target_compacted:
            return [one.offset for one in self._ahead if one.offset < given.claimed and not one.is_aborted]
        for record in self._ahead:
            # The records behind that offset were not copied, so they explain nothing that is missing there.
            if record.offset < given.claimed:
                self._pass_over(record)
        return sorted(one.offset for one in self._absent.values() if one.offset < given.claimed)

    def _pass_over(self, record: SourceRecord) -> None:
        """Pass a record that the target does not have: the cleaner removes those with a later
        record of the same key.
        """
        if record.is_aborted:
            return
        self._absent.pop(record.key, None)
        if record.key and not record.is_tombstone:
            self._absent[record.key] = record

    def _pass_aborted(self) -> None:
        """Pass aborted records: they may be missing at the target, so do not wait for them."""
        while self._ahead and self._ahead[0].is_aborted:
            record = self._ahead.popleft()
            self._know(record)
            self._aborted.add(record.content)

    def _know(self, record: SourceRecord) -> None:
        """Remember a record. Of identical records the first counts, so that rather too much is copied again than too
        little.
        """
        self._known.setdefault(record.content, record.offset + 1)

    def _match(self, offset: int) -> None:
        record = self._ahead.popleft()
        self._committed_ahead -= 1
        self._know(record)
        self._absent.pop(record.key, None)
        self._position = self._copied_last = record.offset + 1
        self._room_used = 0
        self._beyond += record.offset >= self._given.claimed
        last = self._ranges[-1] if self._ranges else None
        if last is not None and (last.source_end, last.target_end) == (record.offset, offset):
            self._ranges[-1] = last._replace(length=last.length + 1)
        else:
            self._ranges.append(MappedRange(record.offset, offset, 1))

    def _skip_to(self, offset: int, content: bytes) -> bool:
        """Return whether the record is a later one of the source, and those between may be missing at the target."""
        given = self._given
        lost = given.target_lost_beginning and not self._ranges
        if not lost and not given.is_target_compacted:
            return False
        passed_over = 0
        for record in self._ahead:
            if record.content == content and not record.is_aborted:
                break
            if lost and not given.is_target_compacted and record.offset >= given.claimed:
                return False
            passed_over += 1
        else:
            return False
        for _ in range(passed_over):
            passed = self._ahead.popleft()
            self._committed_ahead -= not passed.is_aborted
            self._know(passed)
            if not lost:
                self._pass_over(passed)
        self._match(offset)
        return True

    def _explain(self, offset: int, content: bytes) -> None:
        given = self._given
        if given.source_lost_beginning and not self._ranges:
            self._earlier += 1
        elif given.is_source_compacted and (given.is_target_compacted or self._room_used < self._hole()):
            self._room_used += 1
            self._cleaned += 1
            # Its source offset is unknown: at the position, or before all records that are compared.
            self._known.setdefault(content, 0)
            self._copied_last = 0
        else:
            self._foreign += 1
            if len(self._foreign_at) < _NAMED_MAX:
                self._foreign_at.append(offset)

    def _hole(self) -> int:
        """Return how many offsets before the next record of the source hold no record."""
        return self._ahead[0].offset - self._position if self._ahead else 0


def _before(end: int, ranges: Iterable[MappedRange]) -> Iterator[MappedRange]:
    """Yield the ranges up to a source offset."""
    for each in ranges:
        if each.source_begin < end:
            yield each._replace(length=min(each.length, end - each.source_begin))
