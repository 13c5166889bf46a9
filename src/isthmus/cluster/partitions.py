"""Partitions read from a cluster: Metadata, `min.insync.replicas`, and the leaders' offsets, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from isthmus.cluster.configs import Configs, describe_topic_configs
from isthmus.cluster.offsets import LogRange, log_ranges
from isthmus.errors import ClusterError
from isthmus.model.partitions import NO_LEADER, PartitionState
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.metadata import Metadata, TopicMetadata
from isthmus.wire.offsets import PartitionKey

_MIN_ISR: Final = "min.insync.replicas"
_OFFSETS_S: Final = 3.0


async def partition_states(client: Client, metadata: Metadata) -> tuple[tuple[PartitionState, ...], dict[str, str]]:
    """Every partition of a Metadata answer, and what was not told.

    Needs DESCRIBE on the topics, and DESCRIBE_CONFIGS to be told `min.insync.replicas`.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    sound = [topic for topic in metadata.topics.values() if topic.error_code in (codes.NONE, *codes.LEADER_MOVED)]
    led = [(topic.name, p.partition) for topic in sound for p in topic.partitions if p.leader in metadata.brokers]
    configs, ranges = await asyncio.gather(
        describe_topic_configs(client, [topic.name for topic in sound], only=(_MIN_ISR,)),
        log_ranges(client, led, timeout_s=_OFFSETS_S),
    )
    states = tuple(
        _state(topic, number, metadata, configs.values.get(topic.name), ranges.values)
        for topic in sorted(sound, key=lambda topic: topic.name)
        for number in range(len(topic.partitions))
    )
    not_told = dict(_first({_MIN_ISR: configs.errors.values(), "offsets": ranges.errors.values()}.items()))
    return states, not_told


def _first(errors: Iterable[tuple[str, Iterable[ClusterError]]]) -> Iterator[tuple[str, str]]:
    for part, found in errors:
        messages = [error.message for error in found]
        if messages:
            more = f" (and {len(messages) - 1} more like it)" if len(messages) > 1 else ""
            yield part, f"{messages[0]}{more}"


def _state(
    topic: TopicMetadata,
    number: int,
    metadata: Metadata,
    configs: Configs | None,
    ranges: Mapping[PartitionKey, LogRange],
) -> PartitionState:
    told = topic.partitions[number]
    log = ranges.get((topic.name, told.partition))
    entry = None if configs is None else configs.get(_MIN_ISR)
    return PartitionState(
        topic=topic.name,
        partition=told.partition,
        # A leader that is no live broker any more is one the controller has not replaced yet.
        leader=told.leader if told.leader in metadata.brokers else NO_LEADER,
        leader_epoch=told.leader_epoch,
        replicas=told.replicas,
        isr=told.isr,
        min_insync_replicas=None if entry is None or entry.value is None else int(entry.value),
        log_start=None if log is None else log.start,
        stable_end=None if log is None else log.stable_end,
        high_watermark=None if log is None else log.end,
    )
