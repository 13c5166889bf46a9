"""Reads partitions of a cluster: Metadata, `min.insync.replicas`, and the leaders' offsets, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.admin.configs import describe_topic_configs
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.metadata import Metadata
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.partitions import NO_LEADER, PartitionState
from isthmus.model.kafka.topic import Configs

_MIN_ISR: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"
_OFFSETS_S: Final = 3.0


async def partition_states(client: Client, metadata: Metadata) -> tuple[tuple[PartitionState, ...], dict[str, str]]:
    """Every partition of a Metadata answer with its offsets and configuration, and the reasons for missing parts.

    Needs DESCRIBE on the topics, and DESCRIBE_CONFIGS to see `min.insync.replicas` and whether unclean elections are
    allowed.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    states = partitions_of(metadata)
    led = [(state.topic, state.partition) for state in states if state.leader != NO_LEADER]
    configs, ranges = await asyncio.gather(
        describe_topic_configs(client, {state.topic for state in states}, only=(_MIN_ISR, _UNCLEAN)),
        log_ranges(client, led, timeout_s=_OFFSETS_S),
    )
    not_told = dict(_first({_MIN_ISR: configs.errors.values(), "offsets": ranges.errors.values()}.items()))
    return tuple(_complete(state, configs.values, ranges.values) for state in states), not_told


def partitions_of(metadata: Metadata) -> tuple[PartitionState, ...]:
    """Every partition of a Metadata answer, by topic and number, without offsets and configuration."""
    return tuple(
        PartitionState(
            topic=topic.name,
            partition=reported.partition,
            # A leader that is not alive is one that the controller has not replaced yet.
            leader=reported.leader if reported.leader in metadata.brokers else NO_LEADER,
            leader_epoch=reported.leader_epoch,
            replicas=reported.replicas,
            isr=reported.isr,
        )
        for topic in sorted(metadata.topics.values(), key=lambda topic: topic.name)
        for reported in topic.partitions
    )


def _complete(
    state: PartitionState, configs: Mapping[str, Configs], ranges: Mapping[PartitionKey, LogRange]
) -> PartitionState:
    reported = configs.get(state.topic, {})
    least, unclean = reported.get(_MIN_ISR), reported.get(_UNCLEAN)
    if least is not None and least.value is not None:
        state = state._replace(min_insync_replicas=int(least.value))
    if unclean is not None and unclean.value is not None:
        state = state._replace(is_unclean_allowed=unclean.value == "true")
    log = ranges.get((state.topic, state.partition))
    if log is not None:
        state = state._replace(log_start=log.start, stable_end=log.stable_end, high_watermark=log.end)
    return state


def _first(errors: Iterable[tuple[str, Iterable[ClusterError]]]) -> Iterator[tuple[str, str]]:
    for part, found in errors:
        messages = [error.message for error in found]
        if messages:
            more = f" (and {len(messages) - 1} more like it)" if len(messages) > 1 else ""
            yield part, f"{messages[0]}{more}"
