"""Counts offsets without records, left by the log cleaner, from batch headers."""

from __future__ import annotations

from typing import Final

from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import Want, fetch_once
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED, PartitionKey
from isthmus.model.kafka.rights import on_topic

_FETCH_BYTES: Final = 8 << 20
_TIMEOUT_S: Final = 30.0
_UNKNOWN: Final = -1


async def count_holes(client: Client, partition: PartitionKey, begin: int, end: int, *, stop_above: int) -> int:
    """Count the offsets in `[begin, end)` that hold neither a record nor a control record.

    Every byte of the range is read, as a broker has no other way to tell. Counting ends as soon as
    there are more than `stop_above`.

    :raises ClusterError: The partition cannot be read.
    """
    name, number = partition
    topic = (await client.metadata([name])).topics[name]
    right = on_topic("DESCRIBE", name)
    codes.raise_for_code(topic.error_code, f"finding topic {name}", right, cluster=client.cluster.alias)
    leader = next((p.leader for p in topic.partitions if p.partition == number), _UNKNOWN)
    if leader < 0:
        code = codes.LEADER_NOT_AVAILABLE
        raise codes.error_for(code, f"reading {name}-{number}", right, cluster=client.cluster.alias)
    connection = await client.dial(leader)
    holes, position = 0, begin
    try:
        while position < end and holes <= stop_above:
            records = await _fetch(connection, partition, Want(topic.topic_id, position, _UNKNOWN, _UNKNOWN))
            before = position
            for batch in scan(records):
                if batch.offset_end > position and batch.base_offset < end:
                    holes += _holes_of(batch, position)
                    position = batch.offset_end
            if position == before:
                # Nothing is stored from here to the end: the cleaner removed the tail.
                return holes + end - position
    finally:
        connection.close()
    return holes


def _holes_of(batch: Batch, position: int) -> int:
    """The holes from `position` to the batch's end; for magic 0 or 1 they cannot be counted."""
    before = max(batch.base_offset - position, 0)
    if batch.magic < 2:
        return 0
    return before + batch.offset_end - batch.base_offset - batch.record_count


async def _fetch(connection: Connection, partition: PartitionKey, want: Want) -> bytes:
    """Fetch the records from the offset on; empty if the log continues without records.

    :raises ClusterError: The partition cannot be read, or it is not known whether it continues.
    """
    (fetched,) = await fetch_once(
        connection, {partition: want}, isolation=READ_UNCOMMITTED, bytes_max=_FETCH_BYTES, timeout_s=_TIMEOUT_S
    )
    what, right = f"reading batch headers of topic {partition[0]}", on_topic("READ", partition[0])
    codes.raise_for_code(fetched.error_code, what, right, cluster=connection.cluster)
    if not fetched.records and fetched.high_watermark <= want.offset:
        raise Unreachable(
            f"{connection.where} does not know yet how far {partition[0]}-{partition[1]} is replicated",
            cluster=connection.cluster,
        )
    return fetched.records
