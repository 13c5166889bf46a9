"""Ends open transactions of other producers.

A transaction with a coordinator is aborted by InitProducerId for its transactional id (KIP-98), which also fences its
producer. A transaction that no coordinator knows is ended by a control record of its own, like `kafka-transactions
abort` does (WriteTxnMarkers, KIP-664).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.transactions.open import ongoing, open_transactions
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.gateways.carriedtransactions import CarriedTransaction
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.partitions import NO_LEADER, PartitionState
from isthmus.model.kafka.rights import on_cluster
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.naming import TopicT

_TERM_S: Final = 30.0
_LOOK_S: Final = 0.05
_AGAIN_S: Final = 0.3
_EPOCH_MAX: Final = 32_766

Still = Callable[[], Awaitable[Collection[str]]]
"""Returns the topics that the caller may still act on at this moment."""


async def abort_transactions(
    client: Client, topics: Collection[str], *, mirrored: bool = False
) -> tuple[OpenTransaction, ...]:
    """Abort every open transaction in these topics, and wait until consumers at read_committed pass it. A transaction
    that is decided, but lacks control records, is waited for.

    Transactions of our links without a coordinator are ended only with `mirrored`, which means that none of these links
    runs. A transaction is aborted as a whole, also in other topics. Partitions without a leader are skipped.

    Needs WRITE on the transactional ids, and ALTER on the cluster for transactions without a coordinator.

    :raises ClusterError: A transaction cannot be aborted, or its owner is not known; a repeated call goes on.
    """
    return await _abort(client, topics, lambda each: mirrored or each.state is not TransactionState.MIRRORED)


async def abort_ongoing(
    client: Client, is_meant: Callable[[frozenset[PartitionKey]], bool]
) -> tuple[CarriedTransaction, ...]:
    """Abort the transactions whose partitions are meant, even if no record of them is in a log yet.

    Needs WRITE on the transactional ids.

    :raises ClusterError: A transaction cannot be aborted; a repeated call goes on.
    """
    found = [each for each, partitions in (await ongoing(client)).items() if is_meant(partitions)]
    for each in found:
        await Transaction(client, each.transactional_id).initialize()
    return tuple(found)


async def abort_mirrored(
    client: Client, topics: Collection[str], still: Still | None = None
) -> tuple[OpenTransaction, ...]:
    """Abort only the transactions that our links have left open in these topics. The look may take a minute, so `still`
    is called just before the first write, and limits the topics. Needs ALTER on the cluster, if there are any.

    :raises ClusterError: As `abort_transactions`.
    """
    return await _abort(client, topics, lambda each: each.state is TransactionState.MIRRORED, still)


async def _abort(
    client: Client, topics: Collection[str], is_meant: Callable[[OpenTransaction], bool], still: Still | None = None
) -> tuple[OpenTransaction, ...]:
    states, found, not_told = await _find_open(client, topics, term_s=_TERM_S)
    ended = list(filter(is_meant, found))
    if ended and still is not None:
        ended = meant_still(ended, await still())
    for each in ended:
        if each.state is TransactionState.UNKNOWN:
            raise ClusterError(
                f"a transaction is open in {each.topic}-{each.partition} of {client.cluster.alias}, and its owner is "
                f"unknown: {not_told.get('transactions', 'its coordinator does not answer')}",
                cluster=client.cluster.alias,
                hint="Allow DESCRIBE and WRITE on all transactional ids, or end its producer; then give the command "
                "again.",
            )
    coordinated = defaultdict(list)
    for each in ended:
        if each.state is TransactionState.OPEN and each.transactional_id is not None:
            coordinated[each.transactional_id].append(each)
    decided = set[str]()
    for transactional_id, parts in sorted(coordinated.items()):
        transaction = Transaction(client, transactional_id)
        await transaction.find((parts[0].topic, parts[0].partition))
        if transaction.is_open:
            await transaction.initialize()
        else:
            # Its producer had ended it, and the control records are on their way.
            decided.add(transactional_id)
    for each in ended:
        if each.state is not TransactionState.OPEN:
            await _end(client, states[each.topic, each.partition].leader, each)
    await _wait_until_passed(client, ended)
    return tuple(each for each in ended if each.transactional_id not in decided)


def meant_still(found: Iterable[OpenTransaction], topics: Collection[str]) -> list[OpenTransaction]:
    """The transactions that are in these topics."""
    return [each for each in found if each.topic in topics]


async def commit_mirrored(client: Client, found: Collection[OpenTransaction]) -> None:
    """Commit transactions that our links have left open, and that are known to be committed at the source; wait until
    they have ended. Needs ALTER on the cluster, if there are any.

    :raises ClusterError: A control record cannot be written; a repeated call goes on.
    """
    left, deadline = frozenset(found), Deadline(_TERM_S)
    topics = {each.topic for each in found}
    states = await _find_led(client, topics)
    for each in found:
        key = each.topic, each.partition
        await _end(client, states[key].leader if key in states else NO_LEADER, each, commit=True)
    while left:
        open_now = await transactions_in(client, topics, term_s=_TERM_S)
        ids = {(each.topic, each.partition, each.producer_id) for each in open_now}
        left = frozenset(each for each in left if (each.topic, each.partition, each.producer_id) in ids)
        if left and deadline.has_passed:
            raise _not_passed_error(client, min((each.topic, each.partition) for each in left))
        if left:
            await asyncio.sleep(_LOOK_S)


async def transactions_in(
    client: Client, topics: Collection[str], *, term_s: float = 0.0
) -> tuple[OpenTransaction, ...]:
    """The open transactions in these topics, without partitions that have no leader. Leaders that move are followed for
    `term_s`.

    :raises ClusterError: A leader does not answer.
    """
    return (await _find_open(client, topics, term_s=term_s))[1]


async def _find_open(
    client: Client, topics: Collection[str], *, term_s: float
) -> tuple[Mapping[PartitionKey, PartitionState], tuple[OpenTransaction, ...], Mapping[str, str]]:
    """Find the partitions with a leader, the open transactions there, and the reasons of silent coordinators.

    :raises ClusterError: A leader does not answer: its open transactions would be taken for ended.
    """
    deadline = Deadline(term_s)
    while True:
        states = await _find_led(client, topics)
        try:
            held = _select_held(states, await _logs(client, states))
            return states, *(await open_transactions(client, held, is_strict=True))
        except ClusterError as error:
            if not may_pass(error) or deadline.has_passed:
                raise
        await asyncio.sleep(_AGAIN_S)


async def transactions_holding(
    client: Client, logs: Mapping[tuple[TopicT, int], LogRange]
) -> tuple[OpenTransaction, ...]:
    """The transactions that hold back the ends of these logs, without partitions whose leader does not answer.

    :raises ClusterError: The cluster as a whole does not answer.
    """
    states = await _find_led(client, {topic for topic, _ in logs})
    return (await open_transactions(client, _select_held(states, {key: logs[key] for key in logs if key in states})))[0]


async def leaderless(client: Client, topics: Collection[str]) -> list[PartitionKey]:
    """The partitions of these topics without a leader, whose open transactions are not known.

    :raises ClusterError: The cluster does not answer.
    """
    if not topics:
        return []
    states = partitions_of(await client.metadata(sorted(topics)))
    return sorted((each.topic, each.partition) for each in states if each.leader == NO_LEADER)


async def _find_led(client: Client, topics: Collection[str]) -> dict[PartitionKey, PartitionState]:
    """Find the partitions of topics that have a leader."""
    if not topics:
        return {}
    return {
        (state.topic, state.partition): state
        for state in partitions_of(await client.metadata(sorted(topics)))
        if state.leader != NO_LEADER
    }


def _select_held(
    states: Mapping[PartitionKey, PartitionState], logs: Mapping[tuple[TopicT, int], LogRange]
) -> list[PartitionState]:
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


async def _end(client: Client, leader: int, open_there: OpenTransaction, *, commit: bool = False) -> None:
    """Write the control record of a transaction without a coordinator.

    For a transaction of a link it carries the next epoch, like a coordinator that fences a producer: otherwise a late
    batch of the link, delayed in the network, would open another transaction that is never ended.
    """
    is_fenced = open_there.state is TransactionState.MIRRORED and open_there.producer_epoch < _EPOCH_MAX
    marker_class: Any = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_class.WritableTxnMarkerTopic(name=open_there.topic, partition_indexes=[open_there.partition])
    marker = marker_class(
        producer_id=open_there.producer_id,
        producer_epoch=open_there.producer_epoch + is_fenced,
        transaction_result=commit,
        topics=[topic],
        # The leader knows no epoch of a producer that has ended no transaction before.
        coordinator_epoch=max(open_there.coordinator_epoch, 0),
        transaction_version=0,
    )
    answer = await client.broker(leader, WriteTxnMarkersRequest(markers=[marker]))
    for code in (
        each.error_code for one in answer.markers for topic_result in one.topics for each in topic_result.partitions
    ):
        what = f"ending a transaction in {open_there.topic}-{open_there.partition}"
        codes.raise_for_code(code, what, on_cluster("ALTER"), cluster=client.cluster.alias)


async def _wait_until_passed(client: Client, ended: Collection[OpenTransaction]) -> None:
    """Wait until none of these transactions holds back a stable end."""
    waiting = {(each.topic, each.partition): each.first_offset for each in ended}
    deadline = Deadline(_TERM_S)
    while waiting:
        logs = await _logs(client, waiting)
        waiting = {key: first for key, first in waiting.items() if logs[key].stable_end <= first}
        if waiting and deadline.has_passed:
            raise _not_passed_error(client, min(waiting))
        if waiting:
            await asyncio.sleep(_LOOK_S)


def _not_passed_error(client: Client, key: PartitionKey) -> Unreachable:
    topic, partition = key
    return Unreachable(
        f"the end of a transaction did not reach {topic}-{partition} in {_TERM_S:g} s", cluster=client.cluster.alias
    )
