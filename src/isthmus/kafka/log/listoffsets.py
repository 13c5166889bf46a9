"""Asks where logs begin and end: ListOffsets (API 2) and OffsetForLeaderEpoch (API 23), many partitions a request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.model.naming import TopicT

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
"""The log start on the brokers' own disks, behind records that only a remote tier holds (KIP-405)."""
EARLIEST_LOCAL_FROM: Final = 8
"""The first version of ListOffsets that knows `EARLIEST_LOCAL`: older ones take it for a timestamp."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
CONSUMER: Final = -1
DEBUGGER: Final = -2
"""The replica id that may ask followers, as Kafka's replica tools do; it needs the rights of a consumer."""

PartitionKey = tuple[str, int]
"""A partition of any cluster; for those known to be of a link's source or target, `isthmus.model.naming` has types."""


class Offset(NamedTuple):
    """The offset that a leader answered, or -1 with its error code."""

    error_code: int
    offset: int


UNTOLD: Final = Offset(codes.LEADER_NOT_AVAILABLE, -1)
"""Stands for a partition that is missing in an answer. This does not prove that the partition does not exist."""


async def list_offsets(
    connection: Connection,
    epochs: Mapping[tuple[TopicT, int], int],
    timestamp: int | Mapping[tuple[TopicT, int], int],
    *,
    isolation: int = READ_UNCOMMITTED,
    asker: int = CONSUMER,
    timeout_s: float = 3.0,
    min_version: int = 4,
) -> dict[tuple[TopicT, int], Offset]:
    """Ask for offsets by timestamp in ms, or `LATEST` (high watermark or last stable offset), or `EARLIEST` (log
    start), of all partitions (`UNTOLD` for those missing in the answer).

    `timestamp` is one for all partitions or one for each. It finds the first offset with it or a later one, -1 for
    none. `epochs` maps partitions to their assumed leader epochs (-1 for unknown); a leader of another epoch answers
    FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. With `asker=DEBUGGER` followers answer too, and `LATEST` is the log end
    of the asked broker.
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
    connection: Connection, epochs: Mapping[tuple[TopicT, int], int], *, timeout_s: float = 3.0
) -> dict[tuple[TopicT, int], Offset]:
    """Ask for the log ends (not the high watermarks) of partitions that this broker leads in exactly these epochs.

    ListOffsets could return them too, but a follower would answer with its own, stale log end.
    """
    return await epoch_ends(connection, epochs, epochs, timeout_s=timeout_s)


async def epoch_ends(
    connection: Connection,
    epochs: Mapping[tuple[TopicT, int], int],
    asked: Mapping[tuple[TopicT, int], int],
    *,
    timeout_s: float = 3.0,
) -> dict[tuple[TopicT, int], Offset]:
    """Ask where the leader epochs `asked` end, or the last earlier ones that the logs have; -1 if they have none.

    The partitions are led by this broker in exactly the `epochs`.
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


def _by_topic(epochs: Mapping[tuple[TopicT, int], int]) -> dict[TopicT, list[tuple[int, int]]]:
    topics: dict[TopicT, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), epoch in epochs.items():
        topics[topic].append((partition, epoch))
    return topics
