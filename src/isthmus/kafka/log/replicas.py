"""Measures how far followers are behind their leaders, in records, by the log ends of all replicas (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import DEBUGGER, LATEST, PartitionKey, list_offsets
from isthmus.model.kafka.partitions import NO_LEADER, PartitionState

_ANY_EPOCH = -1
ReplicaEnds = dict[tuple[PartitionKey, int], int]
"""Log ends by partition and replica."""


async def with_lags(client: Client, states: Iterable[PartitionState]) -> tuple[PartitionState, ...]:
    """Add the lag of each follower to the partitions; one that does not answer is left out. Needs DESCRIBE.

    DescribeLogDirs does not show it: its lag is relative to the high watermark that the follower knows.
    """
    states = tuple(states)
    led = [state for state in states if state.leader != NO_LEADER]
    # Ask the leaders first, so that records written meanwhile do not count as lag.
    ends = await _read_ends(client, [(state, (state.leader,)) for state in led])
    ends |= await _read_ends(client, [(state, _followers(state)) for state in led])
    return tuple(state._replace(behind=_measure_lags(state, ends)) for state in states)


def _followers(state: PartitionState) -> tuple[int, ...]:
    return tuple(replica for replica in state.replicas if replica != state.leader)


def _measure_lags(state: PartitionState, ends: ReplicaEnds) -> tuple[tuple[int, int], ...]:
    key = (state.topic, state.partition)
    leader = ends.get((key, state.leader))
    if leader is None:
        return ()
    reported = ((replica, ends.get((key, replica))) for replica in _followers(state))
    return tuple((replica, max(leader - end, 0)) for replica, end in reported if end is not None)


async def _read_ends(client: Client, wanted: Collection[tuple[PartitionState, tuple[int, ...]]]) -> ReplicaEnds:
    by_node: dict[int, list[PartitionKey]] = defaultdict(list)
    for state, nodes in wanted:
        for node in nodes:
            by_node[node].append((state.topic, state.partition))
    answers = await asyncio.gather(*(_ask(client, node, keys) for node, keys in by_node.items()))
    return {entry: end for answer in answers for entry, end in answer.items()}


async def _ask(client: Client, node: int, keys: Collection[PartitionKey]) -> ReplicaEnds:
    try:
        connection = await client.connection(node)
        reported = await list_offsets(connection, dict.fromkeys(keys, _ANY_EPOCH), LATEST, asker=DEBUGGER)
    except ClusterError:
        return {}
    return {(key, node): offset.offset for key, offset in reported.items() if offset.error_code == codes.NONE}
