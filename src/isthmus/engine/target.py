"""Looks at the target: where its logs end, and the state it keeps of our producer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest

from isthmus.engine.state.writer import LogLook, ProducerState
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import LATEST, READ_UNCOMMITTED, list_offsets, log_ends
from isthmus.model.kafka.rights import on_topic
from isthmus.model.kafka.transactions import is_lone
from isthmus.model.naming import TargetTopicPartition

DESCRIBE_PRODUCERS: Final = 61
_TIMEOUT_S: Final = 3.0


async def look(
    connection: Connection, epochs: dict[TargetTopicPartition, int], producer_id: int
) -> dict[TargetTopicPartition, LogLook | int]:
    """Look at each partition, with four requests in order for all of them. The value is the error code if its leader
    answered one.

    Brokers before 2.8 do not describe producers; for later ones a look needs that answer too.

    The producer's state has to belong to the log end: else the broker would accept the sequence that follows from the
    two at the wrong offset. So the log end is asked for before and after it. Records appended in between count as not
    replicated yet, and such a look has to be taken again. The high watermark comes last, so that
    `high_watermark >= log_end` proves that all records up to that end are replicated.
    """
    befores, producers, ends, marks = await asyncio.gather(
        log_ends(connection, epochs, timeout_s=_TIMEOUT_S),
        _describe(connection, epochs),
        log_ends(connection, epochs, timeout_s=_TIMEOUT_S),
        list_offsets(connection, epochs, LATEST, isolation=READ_UNCOMMITTED, timeout_s=_TIMEOUT_S),
    )
    looks: dict[TargetTopicPartition, LogLook | int] = {}
    for key in epochs:
        before, end, mark, known = befores.get(key), ends.get(key), marks.get(key), producers.get(key)
        if before is None or end is None or mark is None or known is None:
            looks[key] = codes.UNKNOWN_TOPIC_OR_PARTITION
        elif code := before.error_code or end.error_code or mark.error_code or known.error_code:
            looks[key] = code
        else:
            coordinator_epoch = max((state.coordinator_epoch for state in known.producers), default=-1)
            alone = {each.producer_id: _state(each) for each in known.producers if is_lone(each.producer_id)}
            looks[key] = LogLook(
                end.offset,
                min(mark.offset, before.offset),
                _state_of(producer_id, known.producers),
                coordinator_epoch,
                epochs[key],
                alone,
                any(p.current_txn_start_offset >= 0 and p.producer_id not in alone for p in known.producers),
            )
    return looks


async def producer_states(
    connection: Connection, keys: Iterable[TargetTopicPartition], producer_id: int
) -> dict[TargetTopicPartition, ProducerState]:
    """The state that the leader keeps of `producer_id` in each partition; left out where it keeps none, or is older
    than 2.8.

    :raises ClusterError: The leader does not answer, or refuses.
    """
    wanted = list(keys)
    described = await _describe(connection, wanted)
    states: dict[TargetTopicPartition, ProducerState] = {}
    for key in wanted:
        known = described.get(key, Described(codes.UNKNOWN_TOPIC_OR_PARTITION))
        what = f"describing the producers of {key[0]}-{key[1]}"
        codes.raise_for_code(known.error_code, what, on_topic("READ", key[0]), cluster=connection.cluster)
        state = _state_of(producer_id, known.producers)
        if state is not None:
            states[key] = state
    return states


def _state_of(producer_id: int, known: Iterable[Any]) -> ProducerState | None:
    return next((_state(each) for each in known if each.producer_id == producer_id), None)


def _state(producer: Any) -> ProducerState:
    return ProducerState(producer.producer_epoch, producer.last_sequence, producer.current_txn_start_offset)


class Described(NamedTuple):
    """The producers of a partition that its leader knows, or the error code of its answer."""

    error_code: int = codes.NONE
    producers: Sequence[Any] = ()


async def _describe(
    connection: Connection, keys: Iterable[TargetTopicPartition]
) -> dict[TargetTopicPartition, Described]:
    if DESCRIBE_PRODUCERS not in connection.api_versions:
        return dict.fromkeys(keys, Described())
    topics: dict[str, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=partitions)
            for name, partitions in topics.items()
        ]
    )
    answer = await connection.call(request, timeout_s=_TIMEOUT_S)
    return {
        (topic.name, p.partition_index): Described(p.error_code, p.active_producers)
        for topic in answer.topics
        for p in topic.partitions
    }
