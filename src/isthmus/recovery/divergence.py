"""Find the offset up to which two logs of one partition hold the same records: the search, without I/O.

Every record up to the first difference is compared. Looking at single offsets, as a binary search does, would be
quicker and wrong: behind a foreign record stand the source's own records, moved by one, and where neighbours are alike
(same key, value and millisecond) the offsets behind the foreign record look as if nothing had happened. The result
decides which records are set aside before a topic is deleted, so nothing is guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from isthmus.model.links.needs import Side


class SeenRecord(NamedTuple):
    """A record at its offset: its whole content, in few bytes."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStretch:
    """Consecutive records of a log. Two stretches with the same offsets and the same `token` hold the same records;
    otherwise `records` tells the difference, which may cost some work.
    """

    offset_begin: int
    offset_end: int
    token: Hashable
    records: Callable[[], Sequence[SeenRecord]]

    def is_like(self, other: LogStretch) -> bool:
        """Return whether both are known to hold the same records without comparing them."""
        return (self.offset_begin, self.offset_end, self.token) == (other.offset_begin, other.offset_end, other.token)


Search = Generator[Side, LogStretch | None, int]
"""Yields the side of which it wants the next stretch (`None` for its end), and returns the offset that it has found."""


@dataclass(slots=True)
class _Log:
    side: Side
    stretch: LogStretch | None = None
    records: deque[SeenRecord] = field(default_factory=deque)
    has_ended: bool = False


def last_shared(offset_begin: int, offset_end: int, *, is_compacted: bool) -> Search:
    """Find the offset before which both logs hold the same committed records, of those in `[offset_begin, offset_end)`.

    If one of them `is_compacted`, a record that only one side has is no difference: the cleaner may have removed it.
    """
    source, target = _Log(Side.SOURCE), _Log(Side.TARGET)
    while True:
        yield from _fill(source)
        yield from _fill(target)
        if _are_alike(source, target, offset_end):
            source.stretch = target.stretch = None
            continue
        for log in (source, target):
            _unpack(log, offset_begin, offset_end)
        if not all(log.records or log.has_ended for log in (source, target)):
            continue
        if not source.records and not target.records:
            return offset_end
        first = min(log.records[0].offset for log in (source, target) if log.records)
        held = [log.records.popleft() for log in (source, target) if log.records and log.records[0].offset == first]
        if len(held) == 1 and is_compacted:
            continue
        if len(held) == 1 or held[0].digest != held[1].digest:
            return first


def _fill(log: _Log) -> Generator[Side, LogStretch | None, None]:
    if not log.records and log.stretch is None and not log.has_ended:
        log.stretch = yield log.side
        log.has_ended = log.stretch is None


def _are_alike(source: _Log, target: _Log, offset_end: int) -> bool:
    return (
        not source.records
        and not target.records
        and source.stretch is not None
        and target.stretch is not None
        and source.stretch.offset_end <= offset_end
        and source.stretch.is_like(target.stretch)
    )


def _unpack(log: _Log, offset_begin: int, offset_end: int) -> None:
    if not log.records and log.stretch is not None:
        log.records.extend(one for one in log.stretch.records() if offset_begin <= one.offset < offset_end)
        log.stretch = None
