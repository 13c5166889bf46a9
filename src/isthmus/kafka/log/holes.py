"""Counts offsets without records, left by the log cleaner, from batch headers."""

from __future__ import annotations

from contextlib import aclosing

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange


async def count_holes(client: Client, partition: PartitionKey, begin: int, end: int, *, stop_above: int) -> int:
    """Count the offsets in `[begin, end)` that hold neither a record nor a control record. Those before the log start,
    which may have moved since the caller looked, are deleted, and no holes.

    Every byte of the range is read, as a broker has no other way to tell. Counting ends as soon as
    there are more than `stop_above`.

    :raises ClusterError: The partition cannot be read.
    """
    log = (await log_ranges(client, [partition])).all()[partition]
    holes, position = 0, max(begin, log.start)
    reader = LogReader(client, isolation=READ_UNCOMMITTED)
    async with aclosing(reader.read(OffsetRange(*partition, position, end))) as answers:
        async for found in answers:
            for batch, _ in found:
                holes += _holes_of(batch, position)
                position = batch.offset_end
            if holes > stop_above:
                return holes
    return holes + max(end - position, 0)


def _holes_of(batch: Batch, position: int) -> int:
    """The holes from `position` to the batch's end; for magic 0 or 1 they cannot be counted."""
    before = max(batch.base_offset - position, 0)
    if batch.magic < 2:
        return 0
    return before + batch.offset_end - batch.base_offset - batch.record_count
