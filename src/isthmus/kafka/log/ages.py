"""Finds when the record at an offset was made: the timestamp in the header of its batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.tail import batches_before
from isthmus.model.naming import TopicT

_PARTITION_BYTES: Final = 16 << 10
"""Many small batches come in one answer; of larger ones, one in each."""


async def record_times(client: Client, offsets: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], int]:
    """Timestamps (ms) of the batches that hold these offsets, as far as they can be read.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    behind = {key: offset + 1 for key, offset in offsets.items()}
    found = await batches_before(client, behind, partition_bytes_max=_PARTITION_BYTES)
    # In a LogAppendTime batch the broker sets only the last timestamp.
    return {
        key: batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp
        for key, batch in found.items()
        if isinstance(batch, Batch) and batch.magic == 2
    }
