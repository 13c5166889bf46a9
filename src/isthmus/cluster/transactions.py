"""Open transactions, asked of leaders and coordinators (KIP-664).

A leader knows which producer holds its last stable offset back, a coordinator which transactions it will
end. A transaction that only the leader knows is hanging. Looks are taken in that order, and the leader is
asked once more, because a transaction may end in between.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from isthmus.cluster.ages import record_times
from isthmus.cluster.producers import active_producers
from isthmus.errors import ClusterError, UnsupportedByBroker
from isthmus.model.partitions import PartitionState
from isthmus.model.rights import on_transactional_id
from isthmus.model.transactions import OpenTransaction, TransactionState, is_lone
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_STATE_TOPIC: Final = "__transaction_state"
_RETRIES: Final = 6
_RETRY_S: Final = 0.25
_NOT_STARTED: Final = -1
_DESCRIBING: Final = on_transactional_id("DESCRIBE", "*")
_HIDDEN: Final = "coordinators may hide transactions from us: DESCRIBE on all transactional ids is missing"


class _Holder(NamedTuple):
    """A producer whose transaction is open in a partition, as the leader has it."""

    key: PartitionKey
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int


class _Coordinated(NamedTuple):
    """A transaction as its coordinator has it."""

    transactional_id: str
    coordinator: int
    started_ms: int
    timeout_ms: int
    partitions: frozenset[PartitionKey]


class _Coordinators(NamedTuple):
    """What the coordinators said, by producer id; `silent` says why some of them did not."""

    known: Mapping[int, _Coordinated]
    silent: str | None


async def open_transactions(
    client: Client, partitions: Iterable[PartitionState]
) -> tuple[tuple[OpenTransaction, ...], dict[str, str]]:
    """The transactions that hold back the last stable offsets of partitions, and what was not told.

    Needs READ on the topics, and DESCRIBE on all transactional ids: without it nothing is called hanging.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    held = {(p.topic, p.partition): p for p in partitions if p.unstable_records and p.leader >= 0}
    if not held:
        return (), {}
    holders, not_told = await _holders(client, held)
    coordinators = await _coordinators(client, {holder.producer_id for holder in holders})
    orphans = {holder.key for holder in holders if not _is_coordinated(holder, coordinators)}
    if orphans and not coordinators.silent and not await _may_see_all(client):
        coordinators = coordinators._replace(silent=_HIDDEN)
    if coordinators.silent:
        not_told["transactions"] = coordinators.silent
    still, _ = await _holders(client, {key: held[key] for key in orphans})
    remaining = [holder for holder in holders if holder.key not in orphans or holder in still]
    times = await record_times(client, {holder.key: holder.first_offset for holder in remaining})
    found = [_transaction(holder, held[holder.key], coordinators, times.get(holder.key)) for holder in remaining]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition, each.first_offset))), not_told


async def transactional_ids(client: Client, producer_ids: Collection[int]) -> dict[int, str]:
    """The transactional ids of producers, as far as coordinators tell: they forget those that are unused for a week.

    Needs DESCRIBE on them.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    return {each: known.transactional_id for each, known in (await _coordinators(client, producer_ids)).known.items()}


async def _may_see_all(client: Client) -> bool:
    """Whether no transaction is hidden from us: coordinators leave out those that we may not DESCRIBE.

    A transactional id that nobody has is asked for, since rights are looked at first.
    """
    nobody = f"isthmus-{uuid.uuid4()}"
    answer = await client.any(DescribeTransactionsRequest(transactional_ids=[nobody]))
    return all(state.error_code not in codes.AUTHORIZATION for state in answer.transaction_states)


def _is_coordinated(holder: _Holder, coordinators: _Coordinators) -> bool:
    coordinated = coordinators.known.get(holder.producer_id)
    return coordinated is not None and holder.key in coordinated.partitions


def _transaction(
    holder: _Holder, partition: PartitionState, coordinators: _Coordinators, since_ms: int | None
) -> OpenTransaction:
    coordinated = coordinators.known.get(holder.producer_id)
    if _is_coordinated(holder, coordinators):
        state = TransactionState.OPEN
    elif is_lone(holder.producer_id):
        state = TransactionState.MIRRORED
    else:
        state = TransactionState.UNKNOWN if coordinators.silent else TransactionState.HANGING
    return OpenTransaction(
        topic=partition.topic,
        partition=partition.partition,
        state=state,
        producer_id=holder.producer_id,
        producer_epoch=holder.producer_epoch,
        coordinator_epoch=holder.coordinator_epoch,
        first_offset=holder.first_offset,
        held_records=max((partition.high_watermark or 0) - holder.first_offset, 0),
        since_ms=since_ms,
        transactional_id=None if coordinated is None else coordinated.transactional_id,
        coordinator=None if coordinated is None else coordinated.coordinator,
        started_ms=None if coordinated is None or state is not TransactionState.OPEN else coordinated.started_ms,
        timeout_ms=None if coordinated is None else coordinated.timeout_ms,
    )


async def _holders(client: Client, held: Mapping[PartitionKey, PartitionState]) -> tuple[list[_Holder], dict[str, str]]:
    producers = await active_producers(client, {key: partition.leader for key, partition in held.items()})
    holders = [
        _Holder(key, each.producer_id, each.producer_epoch, each.coordinator_epoch, each.transaction_start)
        for key, found in producers.values.items()
        for each in found
        if each.transaction_start > _NOT_STARTED
    ]
    not_told = [_untold(error) for error in producers.errors.values()]
    return holders, {"producers": not_told[0]} if not_told else {}


async def _coordinators(client: Client, producer_ids: Collection[int]) -> _Coordinators:
    """Ask every broker for the transactions it coordinates."""
    if not producer_ids:
        return _Coordinators({}, None)
    metadata = await client.metadata([_STATE_TOPIC])
    partitions = metadata.topics[_STATE_TOPIC].partitions
    without = [str(p.partition) for p in partitions if p.leader not in metadata.brokers]
    silent = f"{_STATE_TOPIC} has partitions without a leader: {', '.join(without)}" if without else None
    answers = await asyncio.gather(
        *(_ask_coordinator(client, node, producer_ids) for node in metadata.brokers), return_exceptions=True
    )
    known: dict[int, _Coordinated] = {}
    for answer in answers:
        if isinstance(answer, ClusterError):
            silent = _untold(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            known.update(answer)
    return _Coordinators(known, silent)


async def _ask_coordinator(client: Client, node: int, producer_ids: Collection[int]) -> dict[int, _Coordinated]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))
    listed = await _patiently(client, node, request, lambda answer: [answer.error_code])
    ids = [state.transactional_id for state in listed.transaction_states]
    if not ids:
        return {}
    request = DescribeTransactionsRequest(transactional_ids=ids)
    described = await _patiently(
        client, node, request, lambda answer: [s.error_code for s in answer.transaction_states]
    )
    return {
        state.producer_id: _Coordinated(
            state.transactional_id,
            node,
            state.transaction_start_time_ms,
            state.transaction_timeout_ms,
            frozenset((topic.topic, partition) for topic in state.topics for partition in topic.partitions),
        )
        for state in described.transaction_states
        if state.error_code == codes.NONE
    }


async def _patiently(client: Client, node: int, request: Any, codes_of: Any) -> Any:
    """Ask again while the broker loads what it coordinates, a bounded number of times."""
    for attempt in range(_RETRIES):
        answer = await client.broker(node, request)
        passing = [code for code in codes_of(answer) if code in codes.COORDINATOR_MOVED]
        if not passing:
            break
        await asyncio.sleep(_RETRY_S * (attempt + 1))
    else:
        raise codes.error_for(
            passing[0], f"asking broker {node} for transactions", _DESCRIBING, cluster=client.cluster.alias
        )
    for code in codes_of(answer):
        if code in codes.AUTHORIZATION:
            raise codes.error_for(code, "describing transactions", _DESCRIBING, cluster=client.cluster.alias)
    return answer


def _untold(error: ClusterError) -> str:
    if isinstance(error, UnsupportedByBroker):
        return "not told by this broker version (Kafka 3.0 and newer tell)"
    return error.message
