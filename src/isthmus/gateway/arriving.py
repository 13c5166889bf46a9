"""What a cluster that clients came to is asked, and what its ledger says of where they came from."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus.cluster.offsets import ends_of_epochs
from isthmus.cluster.partitions import partitions_of
from isthmus.cluster.producers import active_producers
from isthmus.cluster.transactions import producer_of
from isthmus.errors import ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.gateway.hidden import HIDING, HiddenTopics
from isthmus.gateway.reserved import ReservedNames
from isthmus.gateway.server import Gateway
from isthmus.gateway.serving import Serving
from isthmus.ledger.documents import CarriedDocument, CarriedTransactionsDocument, NamespaceDocument, decoded, kind_of
from isthmus.ledger.records import Entry
from isthmus.ledger.view import LedgerView
from isthmus.model.carriedproducers import CarriedProducer, CarriedProducers
from isthmus.model.carriedtransactions import CarriedTransactions
from isthmus.model.namespace import Namespace
from isthmus.model.writability import KeptBy, kept_by
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_log = logging.getLogger(__name__)
_ASK_S: Final = 0.05
_RETRY_S: Final = 1.0
_EPOCHS_S: Final = 5.0
_OVERTAKEN_S: Final = 60.0


class CarriedOver(NamedTuple):
    """What is known of where clients came from: producers, the last transactions, up to where partitions are
    the same, and the leader epochs that these have where clients are now.
    """

    producers: CarriedProducers
    transactions: CarriedTransactions
    ends: dict[PartitionKey, int]
    epochs: dict[PartitionKey, int]


def take_reserved(reserved: ReservedNames, entries: Iterable[Entry], cluster_id: str) -> None:
    """Take in what records of the ledger of the cluster with this id say of its namespaces.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    for entry in entries:
        if kind_of(entry.key) == NamespaceDocument.KIND:
            reserved.take(entry.key, entry.offset, _kept_open(entry, cluster_id))


def take_hidden(hidden: HiddenTopics, entries: Iterable[Entry], cluster_id: str) -> bool:
    """Take in what records of the ledger of the cluster with this id say of links that are SYNCING; whether something
    is hidden that was not before.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    for entry in entries:
        if kind_of(entry.key) in HIDING:
            hidden.take(entry.key, entry.offset, None if entry.value is None else decoded(entry.key, entry.value))
    return hidden.settle(cluster_id)


async def hidden_ids(client: Client, hidden: HiddenTopics) -> None:
    """Learn which ids hidden topics of a cluster have.

    :raises ClusterError: It does not answer.
    """
    found = (await client.metadata(None)).topics.values()
    hidden.learn(each.topic_id.bytes for each in found if hidden.holds(each.name))


def _kept_open(entry: Entry, cluster_id: str) -> Namespace | None:
    """The namespace that a record says to be reserved without access rules, if it does."""
    document = None if entry.value is None else decoded(entry.key, entry.value)
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
    """What a cluster's ledger says of the one with the id `source`, that clients have left for this stay; and what is
    `reserved` and `hidden` there now: a client that comes is to meet nothing of what was before.

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
            if not entry.key.startswith(_keys_from(source)):
                continue
            document = None if entry.value is None else decoded(entry.key, entry.value)
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


def _keys_from(source: str) -> tuple[str, ...]:
    """How the keys begin of what is known of a cluster that clients came from."""
    return tuple(f"{kind}/@{source}/" for kind in (CarriedDocument.KIND, CarriedTransactionsDocument.KIND))


async def resolve_doubts(gateway: Gateway) -> None:
    """Ask the cluster that is served of producers that are in doubt, until cancelled."""
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
    """Learn who has a transactional id. One of which that is not told is in the way of no other."""
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
    """Believe in what clusters have in common as long as no leader has lost some of it, and in what is known of
    producers as long as they do not go on, until cancelled.
    """
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
    """Forget what is known of producers that go on by now, whichever gateway they go through.

    :raises ClusterError: The cluster does not answer.
    """
    if carried:
        for key, producers in (await known_producers(client, carried.partitions)).items():
            carried.overtake(key, producers)


async def forget_truncated(client: Client, serving: Serving) -> None:
    """Forget up to where a partition is common if it has another leader since, and that lost some of it.

    :raises ClusterError: A leader does not answer.
    """
    if not serving.common:
        return
    states = partitions_of(await client.metadata(sorted({topic for topic, _ in serving.common})))
    now = {(each.topic, each.partition): each.leader_epoch for each in states}
    moved = {key: known for key, known in serving.epochs.items() if key in now and now[key] != known >= 0}
    for key, end in (await ends_of_epochs(client, moved)).items() if moved else ():
        if end < serving.common.get(key, 0):
            _log.warning("%s-%d lost records at %s: consumers are told so", *key, client.cluster.alias)
            serving.common.pop(key)
        serving.epochs[key] = now[key]


async def known_producers(client: Client, keys: Iterable[PartitionKey]) -> Mapping[PartitionKey, Mapping[int, int]]:
    """The producers that leaders know in partitions, and their last sequences; leaders that do not tell are left out.

    :raises ClusterError: The cluster does not answer.
    """
    wanted = set(keys)
    states = partitions_of(await client.metadata(sorted({topic for topic, _ in wanted})))
    leaders = {(each.topic, each.partition): each.leader for each in states if (each.topic, each.partition) in wanted}
    found = await active_producers(client, leaders)
    return {key: {each.producer_id: each.last_sequence for each in told} for key, told in found.values.items()}
