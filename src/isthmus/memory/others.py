"""Links that other controllers run: the topics they write are theirs, and mirroring them back would be a circle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.kinds import TopicDocument
from isthmus.memory.claims import Claim, Outflow, Selects, ToldClaims
from isthmus.memory.hearing import find_heard, is_gone, term_s
from isthmus.memory.links import LinkMemory, now_ms, read_ledger
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic
from isthmus.model.offsets import OffsetPolicy

_SKEW_S: Final = 15 * 3600.0
"""No two clocks differ by more, not even with a wrong time zone: a controller that was last heard longer ago is not
waited for."""
_MS_PER_S: Final = 1000


def selection(links: Iterable[Link]) -> Selects:
    """Return whether any of these links reads or writes a topic. A naming that cannot be inverted counts as yes."""
    settings = [link.topics for link in links]
    return lambda topic: any(each.matches(SourceTopic(topic)) or each.may_write(topic) for each in settings)


async def claims_around(
    source: Client,
    target: Client,
    others: Iterable[Client],
    own: Collection[Link],
    selects: Selects,
    free: Collection[Link] = (),
) -> list[ToldClaims]:
    """Read what links of other processes write to both ends of a link, of the topics that `own` select; and what is
    written to the clusters from which the source gets its topics, and so on: a circle may be longer than two.

    Clusters on that way are asked as far as they are among `others` and answer. Controllers of links that are known to
    be `free` are not waited for.
    """
    found = await neighbouring_claims((target, source), own, selects, free)
    with contextlib.suppress(ClusterError):
        seen = {(await client.metadata()).cluster_id for client in (source, target)}
        ends = {source.cluster.alias, target.cluster.alias}
        # No mirror writes into a tree, so none of its distributors is part of a circle.
        mirrors = (link for link in own if not link.tree)
        leads_on = any(link.target.alias == source.cluster.alias and link.source.alias not in ends for link in mirrors)
        if leads_on or {claim.source_id for heard in found for claim in heard.claims if not claim.tree} - seen:
            # Only their ids show which of them are on the way: they are asked all at once.
            left = {client.cluster.alias: client for client in others if client.cluster.alias not in ends}
            found += await neighbouring_claims(left.values(), own, lambda _: True, free)
    return found


async def neighbouring_claims(
    clients: Iterable[Client], own: Collection[Link], selects: Selects, free: Collection[Link] = ()
) -> list[ToldClaims]:
    """Read what links of other processes write to clusters, of the topics that `own` select; links that are not run now
    become claims that rest.

    Clocks of two hosts differ, so a controller that seems silent is waited for: until its next heartbeat, or until it
    would have sent several, but not where its link is known to be `free`. A ledger that may not be read yields no
    claims: then only the audit finds what others write.
    """
    found = await asyncio.gather(*(_claims_in(client, own, selects, free) for client in clients))
    return [heard for heard in found if heard is not None]


async def _claims_in(
    client: Client, own: Collection[Link], selects: Selects, free: Collection[Link]
) -> ToldClaims | None:
    """Read what other links write to a cluster, `None` where it does not answer."""
    names = _names_at(client, own)
    try:
        cluster_id = (await client.metadata()).cluster_id
        memory = await read_ledger(client)
        known = [memory.of(link) for link in memory.links if link not in names]
        found = {each.link: each.copy() for each in known if any(map(selects, each.topics))}
        alive = {link for link, each in found.items() if _is_fresh(each)}
        settled = alive | _names_at(client, free)
        doubtful = {link: each for link, each in found.items() if link not in settled and _may_live(each)}
        # If a ledger cannot be read any more nothing is concluded.
        with contextlib.suppress(ClusterError):
            alive |= await find_heard(memory, doubtful)
    except ClusterError:
        return None
    claims = (claim for link in sorted(found) for claim in _claims(found[link], is_alive=link in alive))
    claimed = tuple(claim for claim in claims if selects(claim.target_topic))
    return ToldClaims(cluster_id or "", selects, claimed, tuple(outflows(known, cluster_id or "")))


def outflows(known: Iterable[LinkMemory], cluster_id: str) -> Iterator[Outflow]:
    """Yield the declared links that lead out of a cluster, by its ledger, if all they attach goes with them."""
    for each in known:
        declared = declaration_of(each.link, each.documents.values())
        if not declared.is_whole or declared.is_deleted or declared.source.cluster_id != cluster_id:
            continue
        maps = tuple(pair for pair in declared.maps if pair.kind == "topic")
        settings = declared.settings
        if maps and not {"topics.include", "topics.exclude"} & settings.keys():
            is_mapped = settings.get("topics.offsets") == OffsetPolicy.MAPPED
            yield Outflow(each.link, cluster_id, declared.target.cluster_id, NamespaceNaming(maps), is_mapped)


def _names_at(target: Client, links: Iterable[Link]) -> set[str]:
    """Return the names of links that write to a cluster: a link of another file may have the same name."""
    return {link.name for link in links if link.target.alias == target.cluster.alias}


def _is_fresh(known: LinkMemory) -> bool:
    """Whether its controller sent a heartbeat in these seconds, by both clocks."""
    return known.controller is not None and abs(now_ms() - known.heard_ms) <= term_s(known) * _MS_PER_S


def _may_live(known: LinkMemory) -> bool:
    """Whether it has a controller that may only seem to be silent."""
    return not is_gone(known) and abs(now_ms() - known.heard_ms) <= _SKEW_S * _MS_PER_S


def _claims(known: LinkMemory, *, is_alive: bool) -> list[Claim]:
    identity = known.identity
    if identity is None:
        return []
    return [
        Claim(
            link=known.link,
            source_topic=document.source_topic,
            target_topic=topic,
            source_id=identity.source_cluster_id,
            target_id=identity.target_cluster_id,
            is_mapped=document.is_mapped,
            # A link that is refused a topic now announces it again before it goes on.
            is_resting=not is_alive or _is_refused(document),
            is_refused=is_alive and _is_refused(document),
            is_wanted=is_alive and document.is_wanted,
            tree=identity.tree,
        )
        for topic, document in known.topics.items()
        if not _was_never_begun(document, is_alive=is_alive)
    ]


def _is_refused(document: TopicDocument) -> bool:
    return document.problem is not None and document.state == LaneState.REFUSED


def _was_never_begun(document: TopicDocument, *, is_alive: bool) -> bool:
    """Whether the link only wanted the topic: it was refused, perhaps because others write it, or has ended since."""
    is_over = document.problem is not None or (document.is_wanted and not is_alive)
    return document.target_topic_id == NO_TOPIC_ID and is_over
