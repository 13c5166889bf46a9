"""Asks leaders where the logs of many partitions begin and end (ListOffsets, API 2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.leaders import ask_leaders
from isthmus.kafka.log.listoffsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_LOCAL_FROM,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    epoch_ends,
    list_offsets,
)
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import TopicT

_RETRY_S: Final = 0.2
_BROKER_S: Final = 3.0
_WHAT: Final = "reading the offsets of"


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
        attempt = await ask_leaders(client, wanted, _ask, _WHAT)
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
    ask = partial(list_offsets, timestamp=EARLIEST_LOCAL, min_version=EARLIEST_LOCAL_FROM)
    found = await ask_leaders(client, partitions, ask, _WHAT)
    return {key: offset for key, offset in found.values.items() if offset >= 0}


async def ends_of_epochs(client: Client, epochs: Mapping[tuple[TopicT, int], int]) -> Mapping[tuple[TopicT, int], int]:
    """The end offsets of these leader epochs in their leaders' logs, or of the last earlier epochs that the logs have;
    -1 if they have none (OffsetForLeaderEpoch, API 23). For the present epoch it is the end of the log.

    :raises ClusterError: A leader does not answer.
    """

    async def ask(
        connection: Connection, led: Mapping[tuple[TopicT, int], int]
    ) -> Mapping[tuple[TopicT, int], tuple[int, int]]:
        return await epoch_ends(connection, led, {key: epochs[key] for key in led})

    return (await ask_leaders(client, epochs, ask, _WHAT)).all()


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


async def _ask(
    connection: Connection, epochs: Mapping[tuple[TopicT, int], int]
) -> dict[tuple[TopicT, int], tuple[int, LogRange]]:
    # A broker answers one connection's requests in order: the start is read before the end, and the stable end last, as
    # in a growing log it would else lie before the end without any transaction.
    starts, ends, stable_ends = await asyncio.gather(
        list_offsets(connection, epochs, EARLIEST),
        list_offsets(connection, epochs, LATEST, isolation=READ_UNCOMMITTED),
        list_offsets(connection, epochs, LATEST, isolation=READ_COMMITTED),
    )
    found: dict[tuple[TopicT, int], tuple[int, LogRange]] = {}
    for key, epoch in epochs.items():
        start, end, stable_end = starts[key], ends[key], stable_ends[key]
        code = start.error_code or end.error_code or stable_end.error_code
        found[key] = code, LogRange(start.offset, min(stable_end.offset, end.offset), end.offset, epoch)
    return found
