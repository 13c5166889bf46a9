"""Reads the producer state that partition leaders keep (DescribeProducers, KIP-664), and allocates producer ids."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import InitProducerIdRequest

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import on_cluster, on_topic
from isthmus.model.naming import TopicT

_NONE: Final = -1
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
    by_leader: dict[int, list[tuple[TopicT, int]]] = defaultdict(list)
    for key, leader in leaders.items():
        by_leader[leader].append(key)
    answers = await asyncio.gather(
        *(_ask(client, leader, keys) for leader, keys in by_leader.items()), return_exceptions=True
    )
    values: dict[tuple[TopicT, int], tuple[ActiveProducer, ...]] = {}
    errors: dict[tuple[TopicT, int], ClusterError] = {}
    for keys, answer in zip(by_leader.values(), answers, strict=True):
        if isinstance(answer, ClusterError):
            errors |= dict.fromkeys(keys, answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            values |= answer.values
            errors |= answer.errors
    return Outcomes(values, errors)


async def _ask(
    client: Client, leader: int, keys: Iterable[tuple[TopicT, int]]
) -> Outcomes[tuple[TopicT, int], tuple[ActiveProducer, ...]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in keys:
        topics[topic].append(partition)
    wanted = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[wanted(name=name, partition_indexes=partitions) for name, partitions in topics.items()]
    )
    answer = await client.broker(leader, request)
    values: dict[tuple[TopicT, int], tuple[ActiveProducer, ...]] = {}
    errors: dict[tuple[TopicT, int], ClusterError] = {}
    for topic in answer.topics:
        for described in topic.partitions:
            key = (topic.name, described.partition_index)
            if described.error_code:
                what = f"describing the producers of {key[0]}-{key[1]}"
                errors[key] = codes.error_for(
                    described.error_code, what, on_topic("READ", key[0]), cluster=client.cluster.alias
                )
                continue
            values[key] = tuple(
                ActiveProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                    each.last_sequence,
                )
                for each in described.active_producers
            )
    return Outcomes(values, errors)


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
