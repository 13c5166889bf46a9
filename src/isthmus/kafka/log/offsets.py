"""Asks leaders where the logs of many partitions begin and end (ListOffsets, API 2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_LOCAL_FROM,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Offset,
    PartitionKey,
    epoch_ends,
    list_offsets,
)
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.model.naming import TopicT

_RETRY_S: Final = 0.2
_BROKER_S: Final = 3.0


async def log_ranges(
    client: Client, partitions: Collection[tuple[TopicT, int]], *, timeout_s: float = 10.0
) -> Outcomes[tuple[TopicT, int], LogRange]:
    """Read the log ranges of partitions; leaders that move are followed until `timeout_s` is over.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    deadline = Deadline(timeout_s)
    values: dict[tuple[TopicT, int], LogRange] = {}
    errors: dict[tuple[TopicT, int], ClusterError] = {}
    wanted = set(partitions)
    while wanted:
        attempt = await _attempt(client, wanted)
        values.update(attempt.values)
        errors.update(attempt.errors)
        wanted = {key for key, error in attempt.errors.items() if may_pass(error)}
        if deadline.passes_within(_RETRY_S):
            break
        if wanted:
            await asyncio.sleep(_RETRY_S)
    return Outcomes(values, {key: error for key, error in errors.items() if key not in values})


async def local_starts(client: Client, partitions: Collection[tuple[TopicT, int]]) -> dict[tuple[TopicT, int], int]:
    """The starts of logs on the brokers' own disks (KIP-405); partitions without an answer are left out.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    metadata = await client.metadata(sorted({topic for topic, _ in partitions}))
    leaders, _ = leaders_of(metadata, partitions)

    async def ask(leader: int, epochs: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], Offset]:
        try:
            connection = await client.connection(leader)
            return await list_offsets(connection, epochs, EARLIEST_LOCAL, min_version=EARLIEST_LOCAL_FROM)
        except ClusterError:
            return {}

    answers = await asyncio.gather(*(ask(leader, epochs) for leader, epochs in leaders.items()))
    return {
        key: reported.offset
        for answer in answers
        for key, reported in answer.items()
        if reported.error_code == codes.NONE and reported.offset >= 0
    }


async def ends_of_epochs(client: Client, epochs: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], int]:
    """The end offsets of these leader epochs in their leaders' logs, or of the last earlier epochs that the logs have;
    -1 if they have none (OffsetForLeaderEpoch, API 23). For the present epoch it is the end of the log.

    :raises ClusterError: A leader does not answer.
    """
    leaders, without = leaders_of(await client.metadata(sorted({topic for topic, _ in epochs})), epochs)
    for key, code in without.items():
        raise _refusal(client, key, code)
    found: dict[tuple[TopicT, int], int] = {}
    for leader, led in leaders.items():
        answers = await epoch_ends(await client.connection(leader), led, {key: epochs[key] for key in led})
        for key in led:
            answer = answers[key]
            if answer.error_code:
                raise _refusal(client, key, answer.error_code)
            found[key] = answer.offset
    return found


async def newest_epochs(client: Client, topics: Collection[TopicT]) -> dict[tuple[TopicT, int], int]:
    """The newest leader epoch of each partition that any broker knows: a leader that is cut off from its peers knows no
    later leader than itself. Brokers that do not answer are ignored.

    :raises ClusterError: No broker answers.
    """
    if not topics:
        return {}
    names = sorted(topics)
    first = await client.metadata(names)

    async def ask(node: int) -> Metadata | None:
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_BROKER_S):
                return await client.metadata(names, node_id=node)
        return None

    reported = await asyncio.gather(*map(ask, first.brokers))
    found: dict[tuple[TopicT, int], int] = {}
    for answer in (first, *filter(None, reported)):
        for name in names:
            topic = answer.topics.get(name)
            for each in () if topic is None else topic.partitions:
                key = name, each.partition
                found[key] = max(found.get(key, -1), each.leader_epoch)
    return found


def may_pass(error: ClusterError) -> bool:
    """Whether the error may pass, as a missing leader may return."""
    return error.retryable or (isinstance(error, BrokerRefused) and error.code in codes.READ_PASSES)


async def _attempt(client: Client, wanted: Collection[tuple[TopicT, int]]) -> Outcomes[tuple[TopicT, int], LogRange]:
    metadata = await client.metadata(sorted({topic for topic, _ in wanted}))
    leaders, without = leaders_of(metadata, wanted)
    values: dict[tuple[TopicT, int], LogRange] = {}
    errors = {key: _refusal(client, key, code) for key, code in without.items()}
    answers = await asyncio.gather(*(_ask(client, leader, epochs) for leader, epochs in leaders.items()))
    for answer in answers:
        values.update(answer.values)
        errors.update(answer.errors)
    return Outcomes(values, errors)


async def _ask(
    client: Client, leader: int, epochs: Mapping[tuple[TopicT, int], int]
) -> Outcomes[tuple[TopicT, int], LogRange]:
    try:
        connection = await client.connection(leader)
        # A broker answers one connection's requests in order: the start is read before the end, and the stable end
        # last, as in a growing log it would else lie before the end without any transaction.
        starts, ends, stable_ends = await asyncio.gather(
            list_offsets(connection, epochs, EARLIEST),
            list_offsets(connection, epochs, LATEST, isolation=READ_UNCOMMITTED),
            list_offsets(connection, epochs, LATEST, isolation=READ_COMMITTED),
        )
    except ClusterError as error:
        return Outcomes({}, dict.fromkeys(epochs, error))
    values: dict[tuple[TopicT, int], LogRange] = {}
    errors: dict[tuple[TopicT, int], ClusterError] = {}
    for key in epochs:
        start, end, stable_end = starts[key], ends[key], stable_ends[key]
        code = start.error_code or end.error_code or stable_end.error_code
        if code:
            errors[key] = _refusal(client, key, code)
        else:
            values[key] = LogRange(start.offset, min(stable_end.offset, end.offset), end.offset, epochs[key])
    return Outcomes(values, errors)


def leaders_of(
    metadata: Metadata, wanted: Iterable[tuple[TopicT, int]]
) -> tuple[dict[int, dict[tuple[TopicT, int], int]], dict[tuple[TopicT, int], int]]:
    """Group partitions by leader, with their epochs, and return error codes of partitions without one."""
    known = {(name, p.partition): p for name, topic in metadata.topics.items() for p in topic.partitions}
    leaders: dict[int, dict[tuple[TopicT, int], int]] = defaultdict(dict)
    without: dict[tuple[TopicT, int], int] = {}
    for key in wanted:
        partition = known.get(key)
        if partition is None:
            topic = metadata.topics.get(key[0])
            code = codes.NONE if topic is None else topic.error_code
            without[key] = code or codes.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.leader not in metadata.brokers:
            without[key] = codes.LEADER_NOT_AVAILABLE
        else:
            leaders[partition.leader][key] = partition.leader_epoch
    return leaders, without


def _refusal(client: Client, key: PartitionKey, code: int) -> ClusterError:
    what = f"reading the offsets of {key[0]}-{key[1]}"
    return codes.error_for(code, what, on_topic("DESCRIBE", key[0]), cluster=client.cluster.alias)
