"""Counts offsets without records, left by the log cleaner, from batch headers."""

from __future__ import annotations

from contextlib import ExitStack, aclosing, closing

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
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
    span = OffsetRange(*partition, max(begin, log.start), end)
    with ExitStack() as dialled:
        held: dict[int, Connection] = {}

        async def connect(node_id: int) -> Connection:
            # Its own: all of a log, and a quota that this uses up, would delay all other requests of the client.
            found = held.get(node_id)
            if found is None or found.closed or found.due_for_renewal:
                found = held[node_id] = dialled.enter_context(closing(await client.dial(node_id)))
            return found

        reader = LogReader(client, isolation=READ_UNCOMMITTED, connect=connect)
        return await _count(reader, span, stop_above)


async def _count(reader: LogReader, span: OffsetRange, stop_above: int) -> int:
    holes, position = 0, span.offset_begin
    async with aclosing(reader.read(span)) as answers:
        async for found in answers:
            for batch, _ in found:
                holes += _holes_of(batch, position)
                position = batch.offset_end
            if holes > stop_above:
                return holes
    return holes + max(span.offset_end - position, 0)


def _holes_of(batch: Batch, position: int) -> int:
    """The holes from `position` to the batch's end; for magic 0 or 1 they cannot be counted."""
    before = max(batch.base_offset - position, 0)
    if batch.magic < 2:
        return 0
    return before + batch.offset_end - batch.base_offset - batch.record_count
