"""The registered gateways, and the synchronous links before them, as the ledgers of clusters describe them.

Every cluster is asked at the same time and for a few seconds only: what one does not answer is shown as unknown.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.producers import active_producers
from isthmus.ledger.documents.gateways import pair_words
from isthmus.ledger.documents.kinds import Document, GatewayDocument, MovableGatewayDocument, MoveDocument
from isthmus.links.clientmoves import find_unmarked
from isthmus.memory.hearing import has_ended, heard_gateways
from isthmus.memory.links import LedgerMemory, ledger_within, now_ms
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.gateways.registered import (
    GatewayPair,
    GatewaysReport,
    LinkPart,
    RegisteredGateway,
    Unmarked,
    by_command,
    heard_part,
    with_held,
)
from isthmus.model.gateways.synchrony import HEARD_S
from isthmus.model.link import Link
from isthmus.model.problem import Problem, problem_of
from isthmus.model.text.wording import first_few
from isthmus.status.status import StatusReader

LOOK_S: Final = 5.0
"""The longest wait for the answer of a cluster."""
_GLANCE_S: Final = 1.0
_MS_PER_S: Final = 1000


async def registered_gateways(
    configuration: Configuration,
    session: ClientSession,
    cluster: str | None = None,
    *,
    away: Mapping[str, Problem],
) -> GatewaysReport:
    """Return the gateways that were started for a cluster, or serve it by now, or all of them. The ledgers of clusters
    that are `away`, as was just seen, are not read.

    :raises ConfigError: There is no cluster of that alias.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    chosen = None if cluster is None else configuration.cluster(cluster).alias
    links = [each for each in configuration.links if each.is_synchronous and chosen in (None, each.source.alias)]
    clients = {each.alias: session.client(each) for each in configuration.clusters}
    answers = await asyncio.gather(*(told_ledger(each, away) for each in clients.values()))
    ledgers = {alias: each for alias, each in zip(clients, answers, strict=True) if isinstance(each, LedgerMemory)}
    await heard_gateways(ledgers.values())
    silent = {alias: each for alias, each in zip(clients, answers, strict=True) if isinstance(each, Problem)}
    pairs = await asyncio.gather(*(gateway_pair(each, session, away=silent) for each in links))
    ids = aliases_of(clients)
    found = by_command(each for each in gateways_in(ledgers, ids, links) if chosen is None or is_known_at(each, chosen))
    served = {each.serves for each in found if not each.is_silent and chosen in (None, each.serves)} & ledgers.keys()
    strangers = await asyncio.gather(*(_find_unmarked(clients[each], ledgers[each]) for each in sorted(served)))
    return GatewaysReport(
        gateways=found,
        pairs=tuple(with_held(each, found) for each in pairs),
        unmarked=tuple(strangers),
        away=silent,
    )


def is_known_at(one: RegisteredGateway, cluster: str) -> bool:
    """Whether a gateway was started for a cluster, or serves it. A gateway in no ledger that answers, as its cluster is
    lost, counts for every cluster that it could move clients to.
    """
    return cluster in (one.cluster, one.serves) or not one.cluster


def aliases_of(clients: Mapping[str, Client]) -> dict[str, str]:
    """Return the aliases of clusters, by their ids, as far as they have reported these."""
    return {client.cluster.cluster_id: alias for alias, client in clients.items() if client.cluster.cluster_id}


async def told_ledger(client: Client, away: Mapping[str, Problem]) -> LedgerMemory | Problem:
    """Read the ledger of a cluster within five seconds, or return why that failed; one that is `away` is not read."""
    known = away.get(client.cluster.alias)
    return await ledger_within(client, LOOK_S) if known is None else known


async def gateway_pair(
    link: Link, session: ClientSession, *, away: Mapping[str, Problem] = MappingProxyType({})
) -> GatewayPair:
    """Return the standing of a synchronous link, the same as in its status, without what gateways hold for it. Clusters
    that are `away` are given a shorter time, or are not asked at all.
    """
    pair = GatewayPair(
        link=link.name, source=link.source.alias, target=link.target.alias, out_of_sync=link.sync.out_of_sync
    )
    silent = [away[alias] for alias in (pair.source, pair.target) if alias in away]
    if len(silent) > 1:
        return replace(pair, problem=silent[0])
    within_s = _GLANCE_S if silent else LOOK_S
    try:
        async with asyncio.timeout(within_s):
            (found,) = await StatusReader((link,), session).read()
    except TimeoutError:
        why = f"{pair.source} or {pair.target} did not tell within {within_s:g} s how it stands"
        return replace(pair, problem=problem_of(Unreachable(why)))
    return replace(pair, sync=found.sync, problem=found.problem)


def gateways_in(
    ledgers: Mapping[str, LedgerMemory], ids: Mapping[str, str], links: Collection[Link]
) -> Iterator[RegisteredGateway]:
    """Yield every process that has registered, by the ledgers of these clusters. `ids` has the aliases of cluster ids,
    and `links` are the synchronous ones.
    """
    at_ms = now_ms()
    registered: dict[str, tuple[str, GatewayDocument, float]] = {}
    movable: dict[str, tuple[MovableGatewayDocument, float]] = {}
    moves: list[MoveDocument] = []
    for alias, ledger in ledgers.items():
        silences = ledger.unlinked_silences(at_ms)
        unlinked = ledger.find_unlinked().values()
        moves += MoveDocument.find_all(unlinked)
        for each in GatewayDocument.find_all(unlinked):
            # The ledger that a gateway with moved clients has left may still hold its document.
            known, age_s = registered.get(each.gateway), silences[each.key].likely_s
            if known is None or (known[1].has_ended, known[2]) > (each.has_ended, age_s):
                registered[each.gateway] = alias, each, age_s
        for one in MovableGatewayDocument.find_all(unlinked):
            newest, age_s = movable.get(one.gateway), silences[one.key].likely_s
            if newest is None or age_s < newest[1]:
                movable[one.gateway] = one, age_s
    ids = {**_aliases_in_moves(moves, ids), **ids}
    for gateway in registered.keys() | movable.keys():
        alias, document, age_s = registered.get(gateway, ("", None, math.inf))
        word, word_age_s = movable.get(gateway, (None, math.inf))
        serves = alias if word is None else ids.get(word.serves, word.serves)
        move = "" if word is None else _describe_move(word, moves)
        if document is None:
            described = "" if word is None else word.described
            part = RegisteredGateway(ids=(gateway,), address=described, serves=serves, move=move)
        else:
            parts = _parts(document, [each for each in links if each.source.alias == alias], ledgers[alias])
            part = RegisteredGateway(
                ids=(gateway,),
                address=document.advertised,
                serves=serves,
                host=document.host,
                host_id=document.host_id,
                pid=document.command or document.pid,
                version=document.version,
                since_ms=document.since_ms,
                cluster=alias,
                places=document.places,
                move=move,
                processes=document.processes,
                connections=document.connections,
                links=tuple(parts),
                refused={each.reason: each.times for each in document.refused},
            )
        is_over = document is not None and has_ended(_with_liveness(document, word_age_s))
        yield heard_part(part, min(age_s, word_age_s), has_ended=is_over)


def _with_liveness(document: GatewayDocument, age_s: float) -> GatewayDocument:
    """Correct the document of a process whose last word to a move of clients is so old (s): one that is heard has ended
    only at a cluster that its clients have left.
    """
    return replace(document, has_ended=document.has_ended and age_s > HEARD_S)


def _parts(document: GatewayDocument, links: Iterable[Link], ledger: LedgerMemory) -> Iterator[LinkPart]:
    """Yield what a process reports of each synchronous link before it."""
    held = {each.link: each for each in document.held}
    for link in links:
        word = pair_words(link.name, link.mode_said, ledger.of(link.name).documents.values()).get(document.gateway)
        now = held.get(link.name)
        yield LinkPart(
            link=link.name,
            state=None if word is None else word.state,
            since_ms=-1 if word is None else word.since_ms,
            reason="" if word is None else word.reason,
            held=0 if now is None else now.answers,
            oldest_s=0.0 if now is None else now.oldest_ms / _MS_PER_S,
        )


def _aliases_in_moves(moves: Iterable[MoveDocument], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the aliases that moves of clients have for clusters, for those that do not report their ids now, without
    those that are aliases of other clusters by now.
    """
    named = [end for each in moves for end in ((each.source, each.source_alias), (each.target, each.target_alias))]
    return {cluster_id: alias for cluster_id, alias in named if alias not in ids.values()}


def _describe_move(word: MovableGatewayDocument, moves: Iterable[MoveDocument]) -> str:
    """Describe what a gateway does for clients that are moving; "" for nothing."""
    move = next((each for each in moves if each.move == word.move), None)
    if move is None or move.step is not MoveStep.FENCE or word.is_serving:
        return ""
    if word.is_drained:
        return f"takes no requests: clients are to move to {move.target_alias}"
    return f"waits for answers of {first_few(word.waits_for)}: clients are to move to {move.target_alias}"


async def _find_unmarked(client: Client, ledger: LedgerMemory) -> Unmarked:
    """Find the producers that wrote past the gateways of a cluster."""
    alias = client.cluster.alias
    documents: Iterable[Document] = ledger.documents().values()
    try:
        async with asyncio.timeout(LOOK_S):
            states = partitions_of(await client.metadata(None))
            leaders = {(each.topic, each.partition): each.leader for each in states if not each.topic.startswith("_")}
            found = await active_producers(client, leaders)
    except (ClusterError, TimeoutError):
        return Unmarked(cluster=alias)
    if found.errors:
        return Unmarked(cluster=alias)
    strangers = find_unmarked(found.values, documents)
    return Unmarked(
        cluster=alias, producers=len({one for _, one in strangers}), partitions=len({key for key, _ in strangers})
    )
