"""Finds open transactions by asking leaders and coordinators (KIP-664).

A leader knows which producer holds its last stable offset back, a coordinator which transactions it will
end. A transaction that only the leader knows is hanging. They are asked in that order, and the leader
again at the end, because a transaction may end in between.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, NotAuthorized, Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.ages import record_times
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.transactions.producers import active_producers
from isthmus.model.gateways.carriedtransactions import CarriedTransaction
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.kafka.rights import grant, on_transactional_id
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState, is_lone

_STATE_TOPIC: Final = "__transaction_state"
_RETRIES: Final = 6
_RETRY_S: Final = 0.25
_NOT_STARTED: Final = -1
_NOBODY: Final = (-1, -1)
_ONGOING: Final = "Ongoing"
_DECIDING: Final = "Prepare"
_COMMITTED: Final = "CompleteCommit"
_DECIDING_S: Final = 10.0
_AT_ONCE: Final = 1_000
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
    """The transactions that coordinators know, by producer id; `silent` is why some did not answer."""

    known: Mapping[int, _Coordinated]
    silent: str | None


async def open_transactions(
    client: Client, partitions: Iterable[PartitionState], *, is_strict: bool = False
) -> tuple[tuple[OpenTransaction, ...], dict[str, str]]:
    """The transactions that hold back the last stable offsets of partitions, and the reasons for missing answers.

    Needs READ on the topics, and DESCRIBE on all transactional ids: without it no transaction is reported as hanging.

    :raises ClusterError: The cluster as a whole did not answer; or, if this `is_strict`, the leader of a partition.
        Brokers before Kafka 3.0 cannot answer, and cause no error.
    """
    held = {(p.topic, p.partition): p for p in partitions if p.unstable_records and p.leader >= 0}
    if not held:
        return (), {}
    holders, not_told = await _find_holders(client, held, is_strict=is_strict)
    coordinators = await _coordinators(client, {holder.producer_id for holder in holders})
    orphans = {holder.key for holder in holders if not _is_coordinated(holder, coordinators)}
    if orphans and not coordinators.silent and not await _may_see_all(client):
        coordinators = coordinators._replace(silent=_HIDDEN)
    if coordinators.silent:
        not_told["transactions"] = coordinators.silent
    still, not_told_again = await _find_holders(client, {key: held[key] for key in orphans}, is_strict=is_strict)
    not_told |= not_told_again
    remaining = [holder for holder in holders if holder.key not in orphans or holder in still]
    times = await record_times(client, {holder.key: holder.first_offset for holder in remaining})
    found = [_build_transaction(holder, held[holder.key], coordinators, times.get(holder.key)) for holder in remaining]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition, each.first_offset))), not_told


async def transactional_ids(client: Client, producer_ids: Collection[int]) -> dict[int, str]:
    """The transactional ids of producers that coordinators know: they forget ids that are unused for a week.

    Needs DESCRIBE on them.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    return {each: known.transactional_id for each, known in (await _coordinators(client, producer_ids)).known.items()}


async def producer_of(client: Client, transactional_id: str) -> tuple[int, int]:
    """The producer id and epoch that a coordinator has for a transactional id, -1 if it does not know it.

    :raises UnsupportedByBroker: Before 3.0 (KIP-664) brokers do not describe transactions.
    :raises ClusterError: The coordinator does not answer or does not allow it.
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (found,) = (await client.coordinator("transaction", transactional_id, request)).transaction_states
    if found.error_code == codes.TRANSACTIONAL_ID_NOT_FOUND:
        return _NOBODY
    if found.error_code in codes.COORDINATOR_MOVED:
        client.forget_coordinator("transaction", transactional_id)
    what = f"describing the transactions of {transactional_id}"
    right = on_transactional_id("DESCRIBE", transactional_id)
    codes.raise_for_code(found.error_code, what, right, cluster=client.cluster.alias)
    return int(found.producer_id), int(found.producer_epoch)


async def require_all_seen(client: Client) -> None:
    """Require that coordinators show us all transactions.

    :raises NotAuthorized: DESCRIBE on all transactional ids is missing.
    :raises ClusterError: The cluster does not answer.
    """
    alias = client.cluster.alias
    if not await _may_see_all(client):
        raise NotAuthorized(f"{alias}: {_HIDDEN}", cluster=alias, hint=grant(_DESCRIBING, alias))


async def last_transactions(client: Client, *, is_patient: bool = True) -> tuple[CarriedTransaction, ...]:
    """The last transaction of each transactional id, as far as we may see them (`require_all_seen`). With `is_patient`
    wait for transactions that were decided at the first answer, but do not have all control records yet.

    :raises ClusterError: A coordinator does not answer, or does not come to the end of a transaction.
    """
    metadata = await client.metadata([_STATE_TOPIC])
    topic = metadata.topics[_STATE_TOPIC]
    if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
        return ()
    if without := [str(each.partition) for each in topic.partitions if each.leader not in metadata.brokers]:
        raise Unreachable(
            f"{_STATE_TOPIC} has partitions without a leader: {', '.join(without)}", cluster=client.cluster.alias
        )
    found = await asyncio.gather(*(_list_last(client, node, is_patient=is_patient) for node in metadata.brokers))
    return tuple(each for listing_part in found for each in listing_part)


async def ongoing(client: Client) -> dict[CarriedTransaction, frozenset[PartitionKey]]:
    """The undecided transactions with their partitions, as far as we may see them.

    :raises ClusterError: A coordinator does not answer.
    """
    metadata = await client.metadata()
    found = await asyncio.gather(*(_list_ongoing(client, node) for node in metadata.brokers))
    return {each: partitions for listing_part in found for each, partitions in listing_part.items()}


async def _list_ongoing(client: Client, node: int) -> dict[CarriedTransaction, frozenset[PartitionKey]]:
    request = ListTransactionsRequest(state_filters=[_ONGOING], producer_id_filters=[])
    listed = await _ask_patiently(client, node, request, lambda answer: [answer.error_code])
    names = sorted(each.transactional_id for each in listed.transaction_states)
    return {
        CarriedTransaction(each.transactional_id, each.producer_id, each.producer_epoch): _partitions(each)
        for each in await _describe_at(client, node, names)
        if each.transaction_state == _ONGOING
    }


async def _describe_at(client: Client, node: int, names: Sequence[str]) -> list[Any]:
    """Describe transactional ids at their coordinator; those that it does not know any more are left out."""
    found = list[Any]()
    for at in range(0, len(names), _AT_ONCE):
        request = DescribeTransactionsRequest(transactional_ids=names[at : at + _AT_ONCE])
        answer = await _ask_patiently(
            client, node, request, lambda answer: [each.error_code for each in answer.transaction_states]
        )
        found += (each for each in answer.transaction_states if each.error_code == codes.NONE)
    return found


def _partitions(state: Any) -> frozenset[PartitionKey]:
    return frozenset((topic.topic, partition) for topic in state.topics for partition in topic.partitions)


async def _list_last(client: Client, node: int, *, is_patient: bool) -> list[CarriedTransaction]:
    """As `last_transactions`, for one coordinator."""
    deadline, waiting = Deadline(_DECIDING_S), None
    while True:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        answer = await _ask_patiently(client, node, request, lambda answer: [answer.error_code])
        states = {each.transactional_id: each.transaction_state for each in answer.transaction_states}
        deciding = {name for name, state in states.items() if state.startswith(_DECIDING)}
        # Do not wait for transactions that are decided later.
        waiting = deciding if waiting is None else waiting & deciding
        if not (waiting and is_patient):
            break
        if deadline.has_passed:
            raise Unreachable(
                f"the transaction of {min(waiting)} does not come to its end at broker {node}",
                cluster=client.cluster.alias,
            )
        await asyncio.sleep(_RETRY_S)
    return [
        CarriedTransaction(
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            is_committed=each.transaction_state == _COMMITTED,
        )
        for each in await _describe_at(client, node, sorted(states))
    ]


async def _may_see_all(client: Client) -> bool:
    """Whether no transaction is hidden from us: coordinators leave out those that we may not DESCRIBE.

    This asks for an unused transactional id, since brokers check rights first.
    """
    nobody = f"isthmus-{uuid.uuid4()}"
    answer = await client.any(DescribeTransactionsRequest(transactional_ids=[nobody]))
    return all(state.error_code not in codes.AUTHORIZATION for state in answer.transaction_states)


def _is_coordinated(holder: _Holder, coordinators: _Coordinators) -> bool:
    coordinated = coordinators.known.get(holder.producer_id)
    return coordinated is not None and holder.key in coordinated.partitions


def _build_transaction(
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


async def _find_holders(
    client: Client, held: Mapping[PartitionKey, PartitionState], *, is_strict: bool
) -> tuple[list[_Holder], dict[str, str]]:
    producers = await active_producers(client, {key: partition.leader for key, partition in held.items()})
    for error in producers.errors.values() if is_strict else ():
        if not isinstance(error, UnsupportedByBroker):
            raise error
    holders = [
        _Holder(key, each.producer_id, each.producer_epoch, each.coordinator_epoch, each.transaction_start)
        for key, found in producers.values.items()
        for each in found
        if each.transaction_start > _NOT_STARTED
    ]
    not_told = [_explain_silence(error) for error in producers.errors.values()]
    return holders, {"producers": not_told[0]} if not_told else {}


async def _coordinators(client: Client, producer_ids: Collection[int]) -> _Coordinators:
    """Ask every broker for the transactions of these producers that it coordinates."""
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
            silent = _explain_silence(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            known.update(answer)
    return _Coordinators(known, silent)


async def _ask_coordinator(client: Client, node: int, producer_ids: Collection[int]) -> dict[int, _Coordinated]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))
    listed = await _ask_patiently(client, node, request, lambda answer: [answer.error_code])
    ids = [state.transactional_id for state in listed.transaction_states]
    if not ids:
        return {}
    request = DescribeTransactionsRequest(transactional_ids=ids)
    described = await _ask_patiently(
        client, node, request, lambda answer: [s.error_code for s in answer.transaction_states]
    )
    return {
        state.producer_id: _Coordinated(
            state.transactional_id,
            node,
            state.transaction_start_time_ms,
            state.transaction_timeout_ms,
            _partitions(state),
        )
        for state in described.transaction_states
        if state.error_code == codes.NONE
    }


async def _ask_patiently(client: Client, node: int, request: Any, codes_of: Any) -> Any:
    """Ask a broker, with a bounded number of retries while it loads its transactions."""
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


def _explain_silence(error: ClusterError) -> str:
    if isinstance(error, UnsupportedByBroker):
        return "not reported by this broker version (Kafka 3.0 and newer do)"
    return error.message
