"""Finds transactions in the log of commits that are open for longer than one of ours (DescribeProducers, API 61)."""

from __future__ import annotations

from collections.abc import Collection

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.kafka.transactions.producers import ActiveProducer, producers_of
from isthmus.model.kafka.group import offsets_partition


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
        found = await producers_of(client, [(OFFSETS_TOPIC, partition) for partition in sorted(set(places.values()))])
    except ClusterError:
        return None
    if found.errors:
        return None
    crowded = {partition for (_, partition), each in found.values.items() if _has_elder(each, producer_id)}
    return frozenset(group for group, partition in places.items() if partition in crowded)


def _has_elder(producers: Collection[ActiveProducer], producer_id: int) -> bool:
    begins = {each.producer_id: each.transaction_start for each in producers if each.transaction_start >= 0}
    ours = begins.get(producer_id)
    return any(ours is None or begin < ours for producer, begin in begins.items() if producer != producer_id)
