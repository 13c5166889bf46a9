"""Searches a target's log for records of a mapped lane behind its place, one stretch at a time."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from isthmus.deadline import Deadline
from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.mapped.recount import Arrived, Held, ours
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.reading import LogReader, OffsetRange, StoredBatch
from isthmus.model.naming import TargetTopicPartition
from isthmus.model.offsets import Cursor

OURS_BYTES: Final = 4 << 20
"""A stretch ends with the answer that exceeds so many bytes of ours: they are kept in memory and decoded."""


@dataclass(slots=True)
class Searched:
    """The batches of ours in a stretch of the target's log, from the cursor up to `scanned_to`. It `is_whole` if it
    reaches the requested end, and `is_short` if the log returned no records up to there. From `unseen_from` on the log
    lacked some offsets, with no batch of ours behind them (-1 if none). With `is_lost` another record is in the place
    of the lane's last one. With `is_cut` the stretch was searched further than `scanned_to`.
    """

    ordinal_end: int
    scanned_to: int
    is_whole: bool = False
    is_short: bool = False
    is_lost: bool = False
    is_cut: bool = False
    unseen_from: int = -1
    arrived: list[Arrived] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

    def held(self) -> list[Held]:
        """Decode the records, which takes seconds for many.

        :raises ValueError: The records cannot be decoded.
        """
        return [
            Held(arrived.ordinal + record.offset - arrived.target_begin, record)
            for arrived, batch in zip(self.arrived, self.batches, strict=True)
            for record in records_of(batch)
            if record.offset >= arrived.target_begin
        ]

    def cut(self, ordinal: int) -> None:
        """Drop batches that end behind this ordinal, but keep the first: the others will be found again."""
        kept = max(sum(one.ordinal_end <= ordinal for one in self.arrived), 1)
        if kept < len(self.arrived):
            del self.arrived[kept:], self.batches[kept:]
            last = self.arrived[-1]
            self.ordinal_end, self.scanned_to = last.ordinal_end, last.target_begin + last.length
            self.is_cut, self.is_whole = True, False

    def take(self, stored: Iterable[StoredBatch], producer_id: int, cursor: Cursor, end: int) -> int:
        """Note the batches of ours in an answer. Return their size in bytes."""
        size = 0
        for batch, _ in stored:
            arrived = ours(batch, producer_id, cursor)
            if batch.base_offset > self.scanned_to and self.unseen_from < 0:
                self.unseen_from = self.scanned_to
            if arrived is not None and arrived.ordinal_end > self.ordinal_end:
                # Its ordinal shows how many records of ours were before it.
                self.unseen_from = -1
                self.arrived.append(arrived.since(self.ordinal_end))
                self.batches.append(batch)
                self.ordinal_end = arrived.ordinal_end
                size += len(batch.view)
            self.scanned_to = min(max(batch.offset_end, self.scanned_to), end)
        return size


async def scan(
    log: LogReader,
    target: TargetTopicPartition,
    producer_id: int,
    cursor: Cursor,
    begin: int,
    end: int,
    *,
    deadline: Deadline,
) -> Searched:
    """Search the first stretch of `[begin, end)` for batches of ours. It ends after `OURS_BYTES` of ours, or with the
    first answer after the deadline.

    :raises ClusterError: The target does not answer.
    """
    found = Searched(cursor.ordinal, begin)
    if cursor.has_appended and not await _holds_last(log, target, producer_id, cursor, end):
        found.is_lost = True
        return found
    size = 0
    if begin < end:
        async with aclosing(log.read(OffsetRange(*target, begin, end))) as answers:
            async for stored in answers:
                size += found.take(stored, producer_id, cursor, end)
                if size >= OURS_BYTES or deadline.has_passed:
                    break
            else:
                found.is_short = found.scanned_to < end
    found.is_whole = found.scanned_to >= end
    return found


async def _holds_last(log: LogReader, target: TargetTopicPartition, producer_id: int, cursor: Cursor, end: int) -> bool:
    """Whether the lane's last record is at its offset, or was deleted there: else the log is another one."""
    place = cursor.target_offset - 1
    if place >= end:
        return False
    async with aclosing(log.read(OffsetRange(*target, place, place + 1))) as answers:
        async for stored in answers:
            for batch, _ in stored:
                arrived = ours(batch, producer_id, cursor)
                if batch.base_offset <= place:
                    return arrived is not None and arrived.is_aligned(cursor)
    return True
