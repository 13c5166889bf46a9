"""Finds when the record at an offset was made: the timestamp in the header of its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Want, fetch_once
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED, TopicT
from isthmus.kafka.log.offsets import leaders_of
from isthmus.kafka.metadata import Metadata

_ONE_BATCH: Final = 1
"""Less than any batch: the broker then sends exactly the first batch (KIP-74)."""
_UNKNOWN: Final = -1
_ANSWER_S: Final = 10.0


async def record_times(client: Client, offsets: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], int]:
    """Timestamps (ms) of the batches that hold these offsets, as far as they can be read.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not offsets:
        return {}
    metadata = await client.metadata(sorted({topic for topic, _ in offsets}))
    leaders, _ = leaders_of(metadata, offsets)
    answers = await asyncio.gather(
        *(_ask(client, metadata, leader, {key: offsets[key] for key in epochs}) for leader, epochs in leaders.items())
    )
    return {key: timestamp for answer in answers for key, timestamp in answer.items()}


async def _ask(
    client: Client, metadata: Metadata, leader: int, offsets: Mapping[tuple[TopicT, int], int]
) -> dict[tuple[TopicT, int], int]:
    times: dict[tuple[TopicT, int], int] = {}
    try:
        connection = await client.connection(leader)
        for key, offset in offsets.items():
            topic_id = metadata.topics[key[0]].topic_id
            wants = {key: Want(topic_id, offset, _UNKNOWN, _UNKNOWN)}
            for fetched in await fetch_once(
                connection, wants, isolation=READ_UNCOMMITTED, bytes_max=_ONE_BATCH, timeout_s=_ANSWER_S
            ):
                batch = next(scan(fetched.records), None)
                if fetched.error_code == codes.NONE and batch is not None and batch.magic == 2:
                    # In a LogAppendTime batch the broker sets only the last timestamp.
                    is_stamped = batch.is_log_append_time
                    times[key] = batch.max_timestamp if is_stamped else batch.base_timestamp
    except ClusterError:
        # Ages are optional; other requests report why the leader does not answer.
        pass
    return times
