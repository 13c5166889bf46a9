"""Read from the cluster that clients came to, and from its ledger, the state that they carried over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus.errors import ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.gateway.frames.hidden import HIDING, HiddenTopics
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.server import Gateway
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import ends_of_epochs
from isthmus.kafka.transactions.open import producer_of
from isthmus.kafka.transactions.producers import active_producers
from isthmus.ledger.documents.kinds import (
    CarriedDocument,
    CarriedTransactionsDocument,
    NamespaceDocument,
)
from isthmus.ledger.records import Entry
from isthmus.ledger.view import LedgerView
from isthmus.model.gateways.carriedproducers import CarriedProducer, CarriedProducers
from isthmus.model.gateways.carriedtransactions import CarriedTransactions
from isthmus.model.links.writability import KeptBy, kept_by
from isthmus.model.namespace import Namespace

_log = logging.getLogger(__name__)
_ASK_S: Final = 0.05
_RETRY_S: Final = 1.0
_EPOCHS_S: Final = 5.0
_OVERTAKEN_S: Final = 60.0


class CarriedOver(NamedTuple):
    """The state carried over from the former cluster: producers, last transactions, the ends up to which partitions are
    the same, and the leader epochs of these at the current cluster.
    """

    producers: CarriedProducers
    transactions: CarriedTransactions
    ends: dict[PartitionKey, int]
    epochs: dict[PartitionKey, int]


def take_reserved(reserved: ReservedNames, entries: Iterable[Entry], cluster_id: str) -> None:
    """Take in records about namespaces from the ledger of the cluster with this id.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    for entry in entries:
        if entry.kind == NamespaceDocument.KIND:
            reserved.take(entry.key, entry.offset, _find_agreed_namespace(entry, cluster_id))


def take_hidden(hidden: HiddenTopics, entries: Iterable[Entry], cluster_id: str) -> bool:
    """Take in records about links that are SYNCING from the ledger of the cluster with this id; whether topics are
    hidden that were not before.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    for entry in entries:
        if entry.kind in HIDING:
            hidden.take(entry.key, entry.offset, entry.decode())
    return hidden.settle(cluster_id)


async def hidden_ids(client: Client, hidden: HiddenTopics) -> None:
    """Learn the ids of the hidden topics of a cluster.

    :raises ClusterError: The cluster does not answer.
    """
    found = (await client.metadata(None)).topics.values()
    hidden.learn(each.topic_id.bytes for each in found if hidden.holds(each.name))


def _find_agreed_namespace(entry: Entry, cluster_id: str) -> Namespace | None:
    """Return the namespace of a record that reserves it without access rules; otherwise `None`."""
    document = entry.decode()
    if not isinstance(document, NamespaceDocument) or document.cluster != cluster_id:
        return None
    return document.namespace if kept_by(document.registers) is KeptBy.AGREED_ONLY else None


async def carried_from(
    client: Client,
    source: str,
    stay: int,
    reserved: ReservedNames | None = None,
    hidden: HiddenTopics | None = None,
) -> CarriedOver:
    """Read from a cluster's ledger the state that clients carried over for this stay from the cluster `source` (an id),
    and take in what is `reserved` and `hidden` there now, so that a new client meets the current state.

    :raises ClusterError: The ledger cannot be read.
    """
    view, documents = LedgerView(client), dict[str, CarriedDocument]()
    transactions = dict[str, CarriedTransactionsDocument]()
    try:
        begun = time.monotonic()
        entries = (await view.look(is_patient=True)).entries
        if reserved is not None:
            take_reserved(reserved, entries, client.cluster.cluster_id)
            reserved.heard_at = begun
        if hidden is not None:
            take_hidden(hidden, entries, client.cluster.cluster_id)
        for entry in entries:
            if not entry.key.startswith(_key_prefixes(source)):
                continue
            document = entry.decode()
            documents.pop(entry.key, None)
            transactions.pop(entry.key, None)
            if isinstance(document, CarriedDocument) and document.stay == stay:
                documents[entry.key] = document
            if isinstance(document, CarriedTransactionsDocument) and document.stay == stay:
                transactions[entry.key] = document
    finally:
        view.close()
    common = {(each.topic, one.partition): one for each in documents.values() for one in each.common}
    return CarriedOver(
        CarriedProducers(
            (CarriedProducer(each.topic, *row) for each in documents.values() for row in each.producers), stay=stay
        ),
        CarriedTransactions(
            (one for each in transactions.values() for one in each.transactions),
            (one for each in transactions.values() for one in each.here),
            stay=stay,
        ),
        {key: one.end for key, one in common.items()},
        {key: one.epoch for key, one in common.items()},
    )


def _key_prefixes(source: str) -> tuple[str, ...]:
    """Return the key prefixes of documents about a cluster that clients came from."""
    return tuple(kind.key_of(f"@{source}", "") for kind in (CarriedDocument, CarriedTransactionsDocument))


async def resolve_doubts(gateway: Gateway) -> None:
    """Ask the served cluster about producers that are in doubt, until cancelled."""
    while True:
        await asyncio.sleep(_ASK_S)
        client, carried, transactions = gateway.client, gateway.serving.carried, gateway.serving.transactions
        try:
            if carried.doubted:
                for key, producers in (await known_producers(client, set(carried.doubted))).items():
                    carried.learn(key, producers, time.monotonic())
        except ClusterError as error:
            _log.warning("what %s knows of producers: %s", client.cluster.alias, error)
            await asyncio.sleep(_RETRY_S)
        await asyncio.gather(*(_learn_owner(client, transactions, name) for name in list(transactions.doubted)))


async def _learn_owner(client: Client, transactions: CarriedTransactions, transactional_id: str) -> None:
    """Learn the producer of a transactional id. An error for one id does not delay the others."""
    asked_at = time.monotonic()
    try:
        found = await producer_of(client, transactional_id)
    except ClusterError as error:
        _log.warning("who writes as %s is not known: %s", transactional_id, error)
        if isinstance(error, NotAuthorized | UnsupportedByBroker):
            transactions.learn(transactional_id, None, asked_at)
        await asyncio.sleep(_RETRY_S)
    else:
        transactions.learn(transactional_id, found, asked_at)


async def check_arrived(gateway: Gateway) -> None:
    """Forget common ends of partitions that lost records, and producers that have written on, until cancelled."""
    overtaken_at = time.monotonic()
    while True:
        await asyncio.sleep(_EPOCHS_S)
        try:
            await forget_truncated(gateway.client, gateway.serving)
            if time.monotonic() - overtaken_at > _OVERTAKEN_S:
                await forget_overtaken(gateway.client, gateway.serving.carried)
                overtaken_at = time.monotonic()
        except ClusterError as error:
            _log.debug("where clients of %s came from: %s", gateway.cluster.alias, error)


async def forget_overtaken(client: Client, carried: CarriedProducers) -> None:
    """Forget the state of producers that have written on, through any gateway.

    :raises ClusterError: The cluster does not answer.
    """
    if carried:
        for key, producers in (await known_producers(client, carried.partitions)).items():
            carried.overtake(key, producers)


async def forget_truncated(client: Client, serving: Serving) -> None:
    """Forget the common end of a partition if it has another leader since, which lost a part of it.

    :raises ClusterError: A leader does not answer.
    """
    if not serving.common:
        return
    states = partitions_of(await client.metadata(sorted({topic for topic, _ in serving.common})))
    now = {(each.topic, each.partition): each.leader_epoch for each in states}
    moved = {key: known for key, known in serving.epochs.items() if key in now and now[key] != known >= 0}
    for key, end in (await ends_of_epochs(client, moved)).items() if moved else ():
        if end < serving.common.get(key, 0):
            _log.warning("%s-%d lost records at %s: consumers get an error", *key, client.cluster.alias)
            serving.common.pop(key)
        serving.epochs[key] = now[key]


async def known_producers(client: Client, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, Mapping[int, int]]:
    """Read the producers that leaders know in partitions, with their last sequences; leaders that fail are left out.

    :raises ClusterError: The cluster does not answer.
    """
    wanted = set(keys)
    states = partitions_of(await client.metadata(sorted({topic for topic, _ in wanted})))
    leaders = {(each.topic, each.partition): each.leader for each in states if (each.topic, each.partition) in wanted}
    found = await active_producers(client, leaders)
    return {key: {each.producer_id: each.last_sequence for each in known} for key, known in found.values.items()}
