"""Where logs begin and end: ListOffsets (API 2) and OffsetForLeaderEpoch (API 23), many partitions per request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

from isthmus.wire import codes
from isthmus.wire.connection import Connection

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
"""The log start on the brokers' own disks, behind what only a remote tier holds (KIP-405)."""
EARLIEST_LOCAL_FROM: Final = 8
"""The version of ListOffsets that knows it: to older ones it is no time there ever was."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
CONSUMER: Final = -1
DEBUGGER: Final = -2
"""Who may ask followers, as Kafka's tools for replicas do; the rights are those of a consumer."""

PartitionKey = tuple[str, int]


class Offset(NamedTuple):
    """An offset a leader named, or -1 and the error code it answered instead."""

    error_code: int
    offset: int


UNTOLD: Final = Offset(codes.LEADER_NOT_AVAILABLE, -1)
"""What an answer says that leaves a partition out: nothing, and least of all that there is no such partition."""


async def list_offsets(
    connection: Connection,
    epochs: Mapping[PartitionKey, int],
    timestamp: int | Mapping[PartitionKey, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    asker: int = CONSUMER,
    timeout_s: float = 3.0,
    min_version: int = 4,
) -> dict[PartitionKey, Offset]:
    """Offsets by timestamp in ms, or `LATEST` (high watermark or last stable offset), or `EARLIEST` (log start), of all
    that is asked for (`UNTOLD` where the answer leaves it out).

    One for all partitions or one for each. By timestamp it is the first offset that has it or a later one, -1 for none.
    `epochs` maps partitions to the leader epoch they are believed to be in (-1 for unknown); a leader of another epoch
    answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. With `asker=DEBUGGER` followers answer too, and `LATEST` is the
    log end of whoever is asked.
    """
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        topic_class(
            name=name,
            partitions=[
                topic_class.ListOffsetsPartition(
                    partition_index=partition,
                    current_leader_epoch=epoch,
                    timestamp=timestamp if isinstance(timestamp, int) else timestamp[name, partition],
                )
                for partition, epoch in partitions
            ],
        )
        for name, partitions in _by_topic(epochs).items()
    ]
    request = ListOffsetsRequest(replica_id=asker, isolation_level=isolation, topics=topics, min_version=min_version)
    answer = await connection.call(request, timeout_s=timeout_s)
    return dict.fromkeys(epochs, UNTOLD) | {
        (topic.name, p.partition_index): Offset(p.error_code, p.offset)
        for topic in answer.topics
        for p in topic.partitions
    }


async def log_ends(
    connection: Connection, epochs: Mapping[PartitionKey, int], *, timeout_s: float = 3.0
) -> dict[PartitionKey, Offset]:
    """The log end offsets (not the high watermarks) of partitions led by this broker in exactly these epochs.

    ListOffsets could tell too, but a follower would answer it with its own, stale log end.
    """
    return await epoch_ends(connection, epochs, epochs, timeout_s=timeout_s)


async def epoch_ends(
    connection: Connection,
    epochs: Mapping[PartitionKey, int],
    asked: Mapping[PartitionKey, int],
    *,
    timeout_s: float = 3.0,
) -> dict[PartitionKey, Offset]:
    """Where the leader epochs `asked` for end, or the last ones before them that the logs have; -1 if they have none.

    They are those of partitions led by this broker in exactly the `epochs`.
    """
    topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics = [
        topic_class(
            topic=name,
            partitions=[
                topic_class.OffsetForLeaderPartition(
                    partition=partition, current_leader_epoch=epoch, leader_epoch=asked[name, partition]
                )
                for partition, epoch in partitions
            ],
        )
        for name, partitions in _by_topic(epochs).items()
    ]
    request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics, min_version=3)
    answer: Any = await connection.call(request, timeout_s=timeout_s)
    return dict.fromkeys(epochs, UNTOLD) | {
        (topic.topic, p.partition): Offset(p.error_code, p.end_offset)
        for topic in answer.topics
        for p in topic.partitions
    }


def _by_topic(epochs: Mapping[PartitionKey, int]) -> dict[str, list[tuple[int, int]]]:
    topics: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), epoch in epochs.items():
        topics[topic].append((partition, epoch))
    return topics
