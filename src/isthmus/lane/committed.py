"""Which committed transactions of the source a lane is within: their records travel as plain ones, so only the lane
knows. Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.wire.batch import Batch

_TOLD_MAX: Final = 16
"""So many producers are told of a partition that is within more transactions."""


class _Ended(NamedTuple):
    """A transaction that was read to its end: its records begin at `begin`, and its control record ends at `end`."""

    begin: int
    end: int
    producer_id: int


@dataclass(slots=True)
class CommittedTransactions:
    """The committed transactions in what was read of a lane, by offsets of the source.

    Transactions that began before the place where reading began are not seen to begin. A source hands out nothing of a
    transaction that has not ended, so each of these has ended below the high watermark that its first answer tells
    (`all_from`, -1 while there was none): from there on all are known. `_forgotten` is how far they were dropped.
    """

    all_from: int = -1
    _open: dict[int, int] = field(default_factory=dict)
    _ended: deque[_Ended] = field(default_factory=deque)
    _forgotten: int = -1

    def read_from(self, offset: int, read_offset: int) -> None:
        """What follows is read from `offset` on; it had been read up to `read_offset`, -1 for nowhere."""
        if offset > read_offset or offset < self._forgotten:
            # What lies between was not seen, or is not known any more.
            self.all_from = 0 if offset == 0 else -1
            self._open.clear()
            self._ended.clear()
            self._forgotten = -1
            return
        self._open = {producer: begin for producer, begin in self._open.items() if begin < offset}
        while self._ended and self._ended[-1].end > offset:
            last = self._ended.pop()
            if last.begin < offset:
                self._open[last.producer_id] = last.begin

    def answered(self, high_watermark: int) -> None:
        """The source has answered for what follows, which is stable there: its log is in sync up to there."""
        if self.all_from < 0:
            self.all_from = high_watermark

    def read(self, batch: Batch) -> None:
        """A batch in a transaction that was not aborted, or a control record, comes next."""
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
        elif (begin := self._open.pop(batch.producer_id, -1)) >= 0:
            self._ended.append(_Ended(begin, batch.offset_end, batch.producer_id))

    def passed(self, position: int) -> None:
        """All before `position` is copied, so what ended there is of no more interest."""
        while self._ended and self._ended[0].end <= position:
            self._forgotten = self._ended.popleft().end

    def at(self, position: int) -> tuple[int, ...] | None:
        """The producers whose transactions a copy up to `position` ends within, `None` where that is not known."""
        if position < self._forgotten:
            return None
        found = {producer for producer, begin in self._open.items() if begin < position}
        found |= {each.producer_id for each in self._ended if each.begin < position < each.end}
        if not found and not 0 <= self.all_from <= position:
            return None
        return tuple(sorted(found)[:_TOLD_MAX])
