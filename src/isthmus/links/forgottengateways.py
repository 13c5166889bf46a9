"""Forget a gateway that an operator reports as ended: nothing waits for its word any more.

What it acknowledged for synchronous links is proven before its words are deleted, by the gateways that are left. A
gateway that has ended looks like one that is cut off from the ledgers: one that is heard, or runs on this host, is not
forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from isthmus.errors import ConfigError, PlanRefused, Unreachable
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.kinds import GatewayDocument, GatewayPairDocument, MovableGatewayDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.links.gateways import aliases_of, gateways_in, is_known_at, told_ledger
from isthmus.local.host import liveness_of
from isthmus.memory.hearing import heard_gateways
from isthmus.memory.links import LedgerMemory
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.registered import ForgottenGateway, RegisteredGateway, by_command, named_gateways
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.declaration import Declaration
from isthmus.model.problem import Problem
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.text.wording import first_few

_Known = GatewayDocument | GatewayPairDocument | MovableGatewayDocument


async def forget_gateway(
    configuration: Configuration,
    session: ClientSession,
    cluster: str,
    gateway: str,
    *,
    away: Mapping[str, Problem],
    dry_run: bool = False,
) -> ForgottenGateway:
    """Write to the ledgers of all clusters that answer that a gateway of this one has ended, given by its address or
    the beginning of an id; of several processes those that are silent. The ledgers of clusters that are `away`, as was
    just seen, are not read.

    :raises ConfigError: There is no such cluster or gateway, or there are several.
    :raises PlanRefused: It is heard, or runs here; or a newer Isthmus wrote a ledger.
    :raises ClusterError: The cluster's ledger cannot be read, or one cannot be written.
    """
    alias = configuration.cluster(cluster).alias
    clients = {each.alias: session.client(each) for each in configuration.clusters}
    answers = dict(
        zip(clients, await asyncio.gather(*(told_ledger(each, away) for each in clients.values())), strict=True)
    )
    ledgers = {name: each for name, each in answers.items() if isinstance(each, LedgerMemory)}
    if isinstance(problem := answers[alias], Problem):
        raise Unreachable(problem.message, cluster=alias, hint=problem.hint)
    # A wrong name is reported at once, before waiting for heartbeats.
    _find_gateway(gateways_in(ledgers, aliases_of(clients), ()), alias, gateway)
    if not await heard_gateways(ledgers.values(), is_patient=True):
        raise Unreachable(
            "a ledger cannot be read any more: whether the gateway is heard is not known",
            cluster=alias,
            hint="Nothing was written. Give the command again.",
        )
    parts = list(gateways_in(ledgers, aliases_of(clients), ()))
    one = _find_gateway(parts, alias, gateway)
    ids = {each.ids[0] for each in parts if each.ids[0] in one.ids and each.silent}
    known = {name: _documents(each, ids) for name, each in ledgers.items()}
    _check_gone(one, ids, chain.from_iterable(known.values()))
    cluster_ids = {name: each.cluster.cluster_id or "" for name, each in clients.items()}
    changes = forgotten_in(ledgers, cluster_ids, ids)
    if not dry_run:
        # Its own ledger first: what is interrupted behind that is written again by a repeated command.
        for name in sorted(changes, key=lambda each: each != alias):
            if changes[name]:
                await append_once(clients[name], changes[name], replication_factor=None)
    return ForgottenGateway(
        gateway=replace(one, ids=tuple(sorted(ids))),
        ledgers=tuple(name for name, documents in known.items() if documents),
        links=tuple(_synchronous(ledgers.values(), cluster_ids[alias])),
        away={name: each for name, each in answers.items() if isinstance(each, Problem)},
    )


def _find_gateway(parts: Iterable[RegisteredGateway], cluster: str, named: str) -> RegisteredGateway:
    matching = named_gateways([one for one in by_command(parts) if is_known_at(one, cluster)], named)
    if len(matching) == 1:
        return matching[0]
    hint = f"isthmus gateway status {cluster} -o wide shows their ids"
    if not matching:
        raise ConfigError(f"no gateway of {cluster} has the address or id {named}", hint=f"{hint}.")
    which = first_few(f"{each.ids[0]} ({each.host or 'host unknown'}, {each.beat_in_words})" for each in matching)
    raise ConfigError(f"several gateways of {cluster} are {named}: {which}", hint=f"Name one by its id; {hint}.")


def _check_gone(one: RegisteredGateway, ids: Collection[str], documents: Iterable[_Known]) -> None:
    if not ids:
        raise PlanRefused(
            f"gateway {one.address} is heard: it has not ended",
            hint="End it (Ctrl-C or SIGTERM): it takes itself out of the ledgers.",
        )
    for each in documents:
        if not isinstance(each, GatewayPairDocument) and liveness_of(each.whereabouts) is Liveness.ALIVE:
            raise PlanRefused(
                f"{each.described} runs on this host, though it is not heard",
                hint=f"Its log states why it does not reach the ledger. End it first: kill {each.pid}.",
            )


def forgotten_in(
    ledgers: Mapping[str, LedgerMemory], cluster_ids: Mapping[str, str], ids: Collection[str]
) -> dict[str, list[LedgerChange]]:
    """Return the changes to the ledgers of these clusters, after which nothing waits for these gateways."""
    return {
        name: _changes(
            _documents(each, ids),
            _synchronous(ledgers.values()),
            is_proven=not _synchronous(ledgers.values(), cluster_ids[name]),
        )
        for name, each in ledgers.items()
    }


def _synchronous(ledgers: Collection[LedgerMemory], source_id: str | None = None) -> list[str]:
    """Return the synchronous links, by all these ledgers: those of the source with this id, for which gateways hold
    acknowledgements.
    """
    found = list[str]()
    for name in sorted({link for each in ledgers for link in each.links}):
        known = Declaration(name=name, registers=())
        for each in ledgers:
            known = known.join(declaration_of(name, each.of(name).documents.values()).registers)
        is_meant = known.is_whole and source_id in (None, known.source.cluster_id)
        if is_meant and known.mode == SYNC and not known.is_deleted:
            found.append(name)
    return found


def _documents(ledger: LedgerMemory, ids: Collection[str]) -> list[_Known]:
    """Return the documents of these gateways in a ledger."""
    words = [one for name in ledger.links for one in ledger.of(name).documents.values()]
    return [
        one
        for one in (*ledger.find_unlinked().values(), *words)
        if isinstance(one, GatewayDocument | GatewayPairDocument | MovableGatewayDocument) and one.gateway in ids
    ]


def _changes(documents: Iterable[_Known], synchronous: Container[str], *, is_proven: bool) -> list[LedgerChange]:
    """Return the changes to a ledger with these documents. A gateway is deleted once all that it acknowledged before
    this cluster is proven; its words are deleted unless their links are `synchronous`: a failover goes by those, at the
    target too.
    """
    found = list[LedgerChange]()
    for each in documents:
        if isinstance(each, GatewayPairDocument):
            if each.link not in synchronous:
                found.append(Deletion(each.key))
        elif is_proven or isinstance(each, MovableGatewayDocument):
            found.append(Deletion(each.key))
        else:
            found.append(replace(each, has_ended=True))
    return found
