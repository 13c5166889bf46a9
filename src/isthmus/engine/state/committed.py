"""The committed transactions of the source that a lane has copied in part. Their records are written without a
transaction, so only the lane knows. Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.kafka.batches.batch import Batch

_REPORTED_MAX: Final = 16
"""At most so many producers are reported of one partition."""


class _Ended(NamedTuple):
    """A transaction whose control record was read: its records begin at `begin`, its control record ends at `end`."""

    begin: int
    end: int
    producer_id: int


@dataclass(slots=True)
class CommittedTransactions:
    """The committed transactions among the records read of a lane, by offsets of the source.

    The start of transactions that began before the first offset read is not known. A source returns no record of a
    transaction that has not ended, so each of these has ended below the high watermark of its first answer
    (`all_from`, -1 while there was none): from there on all are known. Transactions before `_forgotten` were dropped.
    """

    all_from: int = -1
    _open: dict[int, int] = field(default_factory=dict)
    _ended: deque[_Ended] = field(default_factory=deque)
    _forgotten: int = -1

    def read_from(self, offset: int, read_offset: int) -> None:
        """Reading continues at `offset`. It had reached `read_offset`, -1 if nothing was read."""
        if offset > read_offset or offset < self._forgotten:
            # Transactions in between were not read, or are not known any more.
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
        """Note the high watermark of the first answer of the source: all transactions from there on will be known."""
        if self.all_from < 0:
            self.all_from = high_watermark

    def read(self, batch: Batch) -> None:
        """Take the next batch: of a transaction that was not aborted, or a control record."""
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
        elif (begin := self._open.pop(batch.producer_id, -1)) >= 0:
            self._ended.append(_Ended(begin, batch.offset_end, batch.producer_id))

    def passed(self, position: int) -> None:
        """Drop transactions that ended at or before `position`: they are copied whole."""
        while self._ended and self._ended[0].end <= position:
            self._forgotten = self._ended.popleft().end

    def at(self, position: int) -> tuple[int, ...] | None:
        """The producers whose transactions a copy up to `position` cuts in two, `None` where that is not known."""
        if position < self._forgotten:
            return None
        found = {producer for producer, begin in self._open.items() if begin < position}
        found |= {each.producer_id for each in self._ended if each.begin < position < each.end}
        if not found and not 0 <= self.all_from <= position:
            return None
        return tuple(sorted(found)[:_REPORTED_MAX])
