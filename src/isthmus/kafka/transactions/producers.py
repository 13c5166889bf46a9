"""Reads the producer state that partition leaders keep (DescribeProducers, KIP-664), and allocates producer ids."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import InitProducerIdRequest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.leaders import ask_leaders, ask_nodes
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import on_cluster
from isthmus.model.naming import TopicT

_NONE: Final = -1
_WHAT: Final = "describing the producers of"
_RETRIES: Final = 100
_RETRY_S: Final = 0.1


class ActiveProducer(NamedTuple):
    """A producer as a leader knows it. `transaction_start` is where its open transaction begins, -1 without one;
    `coordinator_epoch` is that of its last control record, -1 without one. `last_sequence` is that of its last record,
    -1 if it has written none.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_start: int
    last_sequence: int = -1

    @property
    def is_transactional(self) -> bool:
        return self.coordinator_epoch > _NONE or self.transaction_start > _NONE


async def active_producers(
    client: Client, leaders: Mapping[tuple[TopicT, int], int]
) -> Outcomes[tuple[TopicT, int], tuple[ActiveProducer, ...]]:
    """Ask these leaders for the active producers of partitions. Needs READ on the topics, and Kafka 3.0."""
    by_leader: dict[int, dict[tuple[TopicT, int], int]] = defaultdict(dict)
    for key, leader in leaders.items():
        by_leader[leader][key] = _NONE
    return await ask_nodes(client, by_leader, _ask, _WHAT, operation="READ")


async def producers_of(
    client: Client, keys: Collection[tuple[TopicT, int]]
) -> Outcomes[tuple[TopicT, int], tuple[ActiveProducer, ...]]:
    """Ask the present leaders for them, as `active_producers` does.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    return await ask_leaders(client, keys, _ask, _WHAT, operation="READ")


async def _ask(
    connection: Connection, epochs: Mapping[tuple[TopicT, int], int]
) -> dict[tuple[TopicT, int], tuple[int, tuple[ActiveProducer, ...]]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in epochs:
        topics[topic].append(partition)
    wanted = DescribeProducersRequest.TopicRequest
    answer: Any = await connection.call(
        DescribeProducersRequest(
            topics=[wanted(name=name, partition_indexes=partitions) for name, partitions in topics.items()]
        )
    )
    return {
        (topic.name, described.partition_index): (
            described.error_code,
            tuple(
                ActiveProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                    each.last_sequence,
                )
                for each in described.active_producers
            ),
        )
        for topic in answer.topics
        for described in topic.partitions
    }


async def allocate_producer(client: Client) -> int:
    """Allocate a new producer id.

    :raises ClusterError: The cluster does not give one.
    """
    code = codes.NONE
    for _ in range(_RETRIES):
        answer = await client.any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
        code = answer.error_code
        if code == codes.NONE:
            return int(answer.producer_id)
        if code not in codes.COORDINATOR_MOVED:
            break
        await asyncio.sleep(_RETRY_S)
    # WRITE on any topic is enough as well.
    right = on_cluster("IDEMPOTENT_WRITE")
    raise codes.error_for(code, "allocating a producer id", right, cluster=client.cluster.alias)
