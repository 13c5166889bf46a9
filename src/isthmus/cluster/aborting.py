"""Open transactions aborted by somebody else than their producers.

A transaction that has a coordinator is aborted by whoever asks for its transactional id next (InitProducerId, KIP-98);
its producer is fenced by that. One that no coordinator knows is ended by a control record of its own, as
`kafka-transactions abort` does it (WriteTxnMarkers, KIP-664).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.partitions import partitions_of
from isthmus.cluster.transaction import Transaction
from isthmus.cluster.transactions import open_transactions
from isthmus.errors import ClusterError, Unreachable
from isthmus.model.log import LogRange
from isthmus.model.partitions import NO_LEADER, PartitionState
from isthmus.model.rights import on_cluster
from isthmus.model.transactions import OpenTransaction, TransactionState
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_TERM_S: Final = 30.0
_LOOK_S: Final = 0.05


async def abort_transactions(
    client: Client, topics: Collection[str], *, mirrored: bool = False
) -> tuple[OpenTransaction, ...]:
    """Abort every transaction that is open in some topics, and wait until consumers at read_committed pass it.

    What links of ours write there without a coordinator is ended only if `mirrored` says that none of them runs. A
    transaction is aborted as a whole: in other topics too. Partitions without a leader are passed over.

    Needs WRITE on the transactional ids, ALTER on the cluster for transactions without a coordinator.

    :raises ClusterError: One of them cannot be aborted, or it is not known whose it is; a repeated call goes on.
    """
    states = await _led(client, topics)
    found, not_told = await open_transactions(client, _held(states, await _logs(client, states)))
    ended = [each for each in found if mirrored or each.state is not TransactionState.MIRRORED]
    for each in ended:
        if each.state is TransactionState.UNKNOWN:
            raise ClusterError(
                f"a transaction is open in {each.topic}-{each.partition} of {client.cluster.alias}, and whose it is "
                f"nobody tells: {not_told.get('transactions', 'its coordinator does not answer')}",
                cluster=client.cluster.alias,
                hint="Allow DESCRIBE and WRITE on all transactional ids, or end its producer; then give the command "
                "again.",
            )
    fenced = {each.transactional_id for each in ended if each.state is TransactionState.OPEN}
    for transactional_id in sorted(name for name in fenced if name is not None):
        await Transaction(client, transactional_id).initialize()
    for each in ended:
        if each.state is not TransactionState.OPEN:
            await _end(client, states[each.topic, each.partition].leader, each)
    await _passed(client, ended)
    return tuple(ended)


async def transactions_in(client: Client, topics: Collection[str]) -> tuple[OpenTransaction, ...]:
    """The transactions that are open in some topics, but for partitions without a leader.

    :raises ClusterError: A leader does not tell.
    """
    states = await _led(client, topics)
    return (await open_transactions(client, _held(states, await _logs(client, states))))[0]


async def transactions_holding(client: Client, logs: Mapping[PartitionKey, LogRange]) -> tuple[OpenTransaction, ...]:
    """The transactions for which the ends of these logs wait, but for partitions without a leader.

    :raises ClusterError: A leader does not tell.
    """
    states = await _led(client, {topic for topic, _ in logs})
    return (await open_transactions(client, _held(states, {key: logs[key] for key in logs if key in states})))[0]


async def _led(client: Client, topics: Collection[str]) -> dict[PartitionKey, PartitionState]:
    """The partitions of topics that have a leader."""
    if not topics:
        return {}
    return {
        (state.topic, state.partition): state
        for state in partitions_of(await client.metadata(sorted(topics)))
        if state.leader != NO_LEADER
    }


def _held(states: Mapping[PartitionKey, PartitionState], logs: Mapping[PartitionKey, LogRange]) -> list[PartitionState]:
    return [
        states[key]._replace(log_start=log.start, stable_end=log.stable_end, high_watermark=log.end)
        for key, log in logs.items()
        if log.stable_end < log.end
    ]


async def _logs(client: Client, keys: Collection[PartitionKey]) -> Mapping[PartitionKey, LogRange]:
    found = await log_ranges(client, keys)
    for error in found.errors.values():
        raise error
    return found.values


async def _end(client: Client, leader: int, open_there: OpenTransaction) -> None:
    """Write the control record that nobody else will write."""
    marker_class: Any = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_class.WritableTxnMarkerTopic(name=open_there.topic, partition_indexes=[open_there.partition])
    marker = marker_class(
        producer_id=open_there.producer_id,
        producer_epoch=open_there.producer_epoch,
        transaction_result=False,
        topics=[topic],
        # Of a producer that has ended none before, a leader knows no epoch.
        coordinator_epoch=max(open_there.coordinator_epoch, 0),
        transaction_version=0,
    )
    answer = await client.broker(leader, WriteTxnMarkersRequest(markers=[marker]))
    for code in (each.error_code for one in answer.markers for told in one.topics for each in told.partitions):
        what = f"aborting a transaction in {open_there.topic}-{open_there.partition}"
        codes.raise_for_code(code, what, on_cluster("ALTER"), cluster=client.cluster.alias)


async def _passed(client: Client, ended: Collection[OpenTransaction]) -> None:
    """Wait until nothing is held back by any of them."""
    waiting = {(each.topic, each.partition): each.first_offset for each in ended}
    deadline = time.monotonic() + _TERM_S
    while waiting:
        logs = await _logs(client, waiting)
        waiting = {key: first for key, first in waiting.items() if logs[key].stable_end <= first}
        if waiting and time.monotonic() > deadline:
            topic, partition = min(waiting)
            raise Unreachable(
                f"the end of a transaction did not reach {topic}-{partition} in {_TERM_S:g} s",
                cluster=client.cluster.alias,
            )
        if waiting:
            await asyncio.sleep(_LOOK_S)
