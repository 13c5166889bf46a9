"""Finds transactions in the log of commits that are open for longer than one of ours (DescribeProducers, API 61)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from kafka.protocol.admin import DescribeProducersRequest

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.kafka.log.offsets import leaders_of
from isthmus.model.kafka.group import offsets_partition

_NOT_OPEN: Final = -1


async def groups_with_elders(client: Client, groups: Collection[str], producer_id: int) -> frozenset[str] | None:
    """The groups whose partition of the log has an open transaction that began before the one of `producer_id`.

    It may hold a commit of the group that was made earlier, but counts later. `None` if the brokers do not report it:
    READ on `__consumer_offsets` is missing, or they are older than 2.8.
    """
    try:
        topic = (await client.metadata([OFFSETS_TOPIC])).topics[OFFSETS_TOPIC]
        if topic.error_code:
            return None
        places = {group: offsets_partition(group, len(topic.partitions)) for group in groups}
        answers = await _find_open_transactions(client, sorted(set(places.values())))
    except ClusterError:
        return None
    if answers is None:
        return None
    crowded = {partition for partition, begins in answers.items() if _has_elder(begins, producer_id)}
    return frozenset(group for group, partition in places.items() if partition in crowded)


def _has_elder(begins: dict[int, int], producer_id: int) -> bool:
    ours = begins.get(producer_id)
    return any(ours is None or begin < ours for producer, begin in begins.items() if producer != producer_id)


async def _find_open_transactions(client: Client, partitions: Collection[int]) -> dict[int, dict[int, int]] | None:
    """The first offset of each producer's open transaction, by partition."""
    metadata = await client.metadata([OFFSETS_TOPIC])
    leaders, _ = leaders_of(metadata, [(OFFSETS_TOPIC, partition) for partition in partitions])
    topic_class = DescribeProducersRequest.TopicRequest
    answers: list[Any] = await asyncio.gather(
        *(
            client.broker(
                node,
                DescribeProducersRequest(
                    topics=[topic_class(name=OFFSETS_TOPIC, partition_indexes=[partition for _, partition in keys])]
                ),
            )
            for node, keys in leaders.items()
        )
    )
    described = [p for answer in answers for topic in answer.topics for p in topic.partitions]
    if len(described) < len(partitions) or any(p.error_code != codes.NONE for p in described):
        return None
    return {
        p.partition_index: {
            state.producer_id: state.current_txn_start_offset
            for state in p.active_producers
            if state.current_txn_start_offset != _NOT_OPEN
        }
        for p in described
    }
