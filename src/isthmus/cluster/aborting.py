"""Open transactions ended by somebody else than their producers.

A transaction that has a coordinator is aborted by whoever asks for its transactional id next (InitProducerId, KIP-98);
its producer is fenced by that. One that no coordinator knows is ended by a control record of its own, as
`kafka-transactions abort` does it (WriteTxnMarkers, KIP-664).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.cluster.offsets import log_ranges, may_pass
from isthmus.cluster.partitions import partitions_of
from isthmus.cluster.transaction import Transaction
from isthmus.cluster.transactions import ongoing, open_transactions
from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.model.carriedtransactions import CarriedTransaction
from isthmus.model.log import LogRange
from isthmus.model.partitions import NO_LEADER, PartitionState
from isthmus.model.rights import on_cluster
from isthmus.model.transactions import OpenTransaction, TransactionState
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_TERM_S: Final = 30.0
_LOOK_S: Final = 0.05
_AGAIN_S: Final = 0.3
_EPOCH_MAX: Final = 32_766

Still = Callable[[], Awaitable[Collection[str]]]
"""Which topics are those of whoever asks at this moment."""


async def abort_transactions(
    client: Client, topics: Collection[str], *, mirrored: bool = False
) -> tuple[OpenTransaction, ...]:
    """Abort every transaction that is open in some topics, and wait until consumers at read_committed pass it. One of
    which only control records are missing, as it was decided, is waited for.

    What links of ours write there without a coordinator is ended only if `mirrored` says that none of them runs. A
    transaction is aborted as a whole: in other topics too. Partitions without a leader are passed over.

    Needs WRITE on the transactional ids, ALTER on the cluster for transactions without a coordinator.

    :raises ClusterError: One of them cannot be aborted, or it is not known whose it is; a repeated call goes on.
    """
    return await _aborted(client, topics, lambda each: mirrored or each.state is not TransactionState.MIRRORED)


async def abort_ongoing(
    client: Client, is_meant: Callable[[frozenset[PartitionKey]], bool]
) -> tuple[CarriedTransaction, ...]:
    """Abort the transactions of which these partitions are meant, whether anything of them is in a log or not.

    Needs WRITE on the transactional ids.

    :raises ClusterError: One of them cannot be aborted; a repeated call goes on.
    """
    found = [each for each, partitions in (await ongoing(client)).items() if is_meant(partitions)]
    for each in found:
        await Transaction(client, each.transactional_id).initialize()
    return tuple(found)


async def abort_mirrored(
    client: Client, topics: Collection[str], still: Still | None = None
) -> tuple[OpenTransaction, ...]:
    """Abort what links of ours have left open in some topics, which nobody goes on with, and nothing else. To look may
    take a minute: which of the topics that holds for `still` is asked just before anything is written. Needs ALTER on
    the cluster, where there is any.

    :raises ClusterError: As `abort_transactions`.
    """
    return await _aborted(client, topics, lambda each: each.state is TransactionState.MIRRORED, still)


async def _aborted(
    client: Client, topics: Collection[str], is_meant: Callable[[OpenTransaction], bool], still: Still | None = None
) -> tuple[OpenTransaction, ...]:
    states, found, not_told = await _told(client, topics, term_s=_TERM_S)
    ended = list(filter(is_meant, found))
    if ended and still is not None:
        ended = meant_still(ended, await still())
    for each in ended:
        if each.state is TransactionState.UNKNOWN:
            raise ClusterError(
                f"a transaction is open in {each.topic}-{each.partition} of {client.cluster.alias}, and whose it is "
                f"nobody tells: {not_told.get('transactions', 'its coordinator does not answer')}",
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
            # Its producer had ended it, and the control records were on their way.
            decided.add(transactional_id)
    for each in ended:
        if each.state is not TransactionState.OPEN:
            await _end(client, states[each.topic, each.partition].leader, each)
    await _passed(client, ended)
    return tuple(each for each in ended if each.transactional_id not in decided)


def meant_still(found: Iterable[OpenTransaction], topics: Collection[str]) -> list[OpenTransaction]:
    """Those transactions that are in these topics."""
    return [each for each in found if each.topic in topics]


async def commit_mirrored(client: Client, found: Collection[OpenTransaction]) -> None:
    """Write the ends of transactions that links of ours have left open, and that are known to be committed; wait until
    they are there. Needs ALTER on the cluster, if there are any.

    :raises ClusterError: One of them cannot be written; a repeated call goes on.
    """
    left, deadline = frozenset(found), Deadline(_TERM_S)
    topics = {each.topic for each in found}
    states = await _led(client, topics)
    for each in found:
        key = each.topic, each.partition
        await _end(client, states[key].leader if key in states else NO_LEADER, each, commit=True)
    while left:
        open_now = await transactions_in(client, topics, term_s=_TERM_S)
        ids = {(each.topic, each.partition, each.producer_id) for each in open_now}
        left = frozenset(each for each in left if (each.topic, each.partition, each.producer_id) in ids)
        if left and deadline.has_passed:
            raise _not_passed(client, min((each.topic, each.partition) for each in left))
        if left:
            await asyncio.sleep(_LOOK_S)


async def transactions_in(
    client: Client, topics: Collection[str], *, term_s: float = 0.0
) -> tuple[OpenTransaction, ...]:
    """The transactions that are open in some topics, but for partitions without a leader. Leaders that move are
    followed for `term_s`.

    :raises ClusterError: A leader does not tell.
    """
    return (await _told(client, topics, term_s=term_s))[1]


async def _told(
    client: Client, topics: Collection[str], *, term_s: float
) -> tuple[Mapping[PartitionKey, PartitionState], tuple[OpenTransaction, ...], Mapping[str, str]]:
    """The partitions of topics that have a leader, what is open there, and what coordinators do not tell of it.

    :raises ClusterError: A leader does not tell: what is open would be taken for ended.
    """
    deadline = Deadline(term_s)
    while True:
        states = await _led(client, topics)
        try:
            held = _held(states, await _logs(client, states))
            return states, *(await open_transactions(client, held, is_strict=True))
        except ClusterError as error:
            if not may_pass(error) or deadline.has_passed:
                raise
        await asyncio.sleep(_AGAIN_S)


async def transactions_holding(client: Client, logs: Mapping[PartitionKey, LogRange]) -> tuple[OpenTransaction, ...]:
    """The transactions for which the ends of these logs wait, but for partitions whose leader does not tell.

    :raises ClusterError: The cluster as a whole does not answer.
    """
    states = await _led(client, {topic for topic, _ in logs})
    return (await open_transactions(client, _held(states, {key: logs[key] for key in logs if key in states})))[0]


async def leaderless(client: Client, topics: Collection[str]) -> list[PartitionKey]:
    """The partitions of topics of which nobody tells what is open in them, as they have no leader.

    :raises ClusterError: The cluster does not answer.
    """
    if not topics:
        return []
    states = partitions_of(await client.metadata(sorted(topics)))
    return sorted((each.topic, each.partition) for each in states if each.leader == NO_LEADER)


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


async def _end(client: Client, leader: int, open_there: OpenTransaction, *, commit: bool = False) -> None:
    """Write the control record that nobody else will write.

    Of what a link has left open it has the next epoch, as a coordinator's has that fences a producer: a batch of the
    link that comes late, from wherever a network held it, would open another transaction, which nobody would end.
    """
    is_fenced = open_there.state is TransactionState.MIRRORED and open_there.producer_epoch < _EPOCH_MAX
    marker_class: Any = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_class.WritableTxnMarkerTopic(name=open_there.topic, partition_indexes=[open_there.partition])
    marker = marker_class(
        producer_id=open_there.producer_id,
        producer_epoch=open_there.producer_epoch + is_fenced,
        transaction_result=commit,
        topics=[topic],
        # Of a producer that has ended none before, a leader knows no epoch.
        coordinator_epoch=max(open_there.coordinator_epoch, 0),
        transaction_version=0,
    )
    answer = await client.broker(leader, WriteTxnMarkersRequest(markers=[marker]))
    for code in (each.error_code for one in answer.markers for told in one.topics for each in told.partitions):
        what = f"ending a transaction in {open_there.topic}-{open_there.partition}"
        codes.raise_for_code(code, what, on_cluster("ALTER"), cluster=client.cluster.alias)


async def _passed(client: Client, ended: Collection[OpenTransaction]) -> None:
    """Wait until nothing is held back by any of them."""
    waiting = {(each.topic, each.partition): each.first_offset for each in ended}
    deadline = Deadline(_TERM_S)
    while waiting:
        logs = await _logs(client, waiting)
        waiting = {key: first for key, first in waiting.items() if logs[key].stable_end <= first}
        if waiting and deadline.has_passed:
            raise _not_passed(client, min(waiting))
        if waiting:
            await asyncio.sleep(_LOOK_S)


def _not_passed(client: Client, key: PartitionKey) -> Unreachable:
    topic, partition = key
    return Unreachable(
        f"the end of a transaction did not reach {topic}-{partition} in {_TERM_S:g} s", cluster=client.cluster.alias
    )
