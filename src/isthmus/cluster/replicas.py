"""How far followers are behind their leaders, in records: the log ends of all replicas, asked of each (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable

from isthmus.errors import ClusterError
from isthmus.model.partitions import NO_LEADER, PartitionState
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import DEBUGGER, LATEST, PartitionKey, list_offsets

_ANY_EPOCH = -1
ReplicaEnds = dict[tuple[PartitionKey, int], int]
"""Log ends by partition and replica."""


async def with_lags(client: Client, states: Iterable[PartitionState]) -> tuple[PartitionState, ...]:
    """The partitions with how far each follower is behind; one that does not answer is left out. Needs DESCRIBE.

    DescribeLogDirs tells no lag of a follower: it is measured against the high watermark that the follower knows.
    """
    states = tuple(states)
    led = [state for state in states if state.leader != NO_LEADER]
    # First the leaders: what comes while followers are asked makes none of them late.
    ends = await _ends(client, [(state, (state.leader,)) for state in led])
    ends |= await _ends(client, [(state, _followers(state)) for state in led])
    return tuple(state._replace(behind=_behind(state, ends)) for state in states)


def _followers(state: PartitionState) -> tuple[int, ...]:
    return tuple(replica for replica in state.replicas if replica != state.leader)


def _behind(state: PartitionState, ends: ReplicaEnds) -> tuple[tuple[int, int], ...]:
    key = (state.topic, state.partition)
    leader = ends.get((key, state.leader))
    if leader is None:
        return ()
    told = ((replica, ends.get((key, replica))) for replica in _followers(state))
    return tuple((replica, max(leader - end, 0)) for replica, end in told if end is not None)


async def _ends(client: Client, wanted: Collection[tuple[PartitionState, tuple[int, ...]]]) -> ReplicaEnds:
    by_node: dict[int, list[PartitionKey]] = defaultdict(list)
    for state, nodes in wanted:
        for node in nodes:
            by_node[node].append((state.topic, state.partition))
    answers = await asyncio.gather(*(_ask(client, node, keys) for node, keys in by_node.items()))
    return {entry: end for answer in answers for entry, end in answer.items()}


async def _ask(client: Client, node: int, keys: Collection[PartitionKey]) -> ReplicaEnds:
    try:
        connection = await client.connection(node)
        told = await list_offsets(connection, dict.fromkeys(keys, _ANY_EPOCH), LATEST, asker=DEBUGGER)
    except ClusterError:
        return {}
    return {(key, node): offset.offset for key, offset in told.items() if offset.error_code == codes.NONE}
