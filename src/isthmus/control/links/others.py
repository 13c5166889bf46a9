"""Links that other controllers run: what they write is theirs, and mirroring it back would be a circle."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import Final

from isthmus.control.links.claims import Claim
from isthmus.control.links.host import liveness_of
from isthmus.control.links.memory import LedgerMemory, LinkMemory, now_ms, remembered
from isthmus.errors import ClusterError
from isthmus.ledger.documents import LinkDocument, TopicDocument
from isthmus.ledger.link import SILENCE_S
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.whereabouts import Liveness
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID

_SKEW_S: Final = 3600.0
"""No two clocks differ by more: a controller that was last heard longer ago is not waited for."""
_MS_PER_S: Final = 1000
_LOOK_S: Final = 0.25


Selects = Callable[[TargetTopic], bool]
"""Whether it matters who writes a topic."""


def selection(links: Iterable[Link]) -> Selects:
    """Whether any of these links reads or writes a topic. Where a naming cannot say what a name was, it may."""
    settings = [link.topics for link in links]
    return lambda topic: any(each.matches(SourceTopic(topic)) or each.may_write(topic) for each in settings)


async def claims_around(
    source: Client,
    target: Client,
    others: Iterable[Client],
    own_links: Collection[str],
    selects: Selects,
    free: Collection[str] = (),
) -> list[Claim]:
    """What links other than our own write to both ends of a link, of the topics that ours select; and what is written
    to the clusters from which the source gets its topics, and so on: a circle may be longer than two.

    Clusters on that way are asked as far as they are among `others` and answer. Controllers of links that are known to
    be `free` are not listened for.
    """
    found = await neighbouring_claims((target, source), own_links, selects, free)
    with contextlib.suppress(ClusterError):
        seen = {(await client.metadata()).cluster_id for client in (source, target)}
        ends = {source.cluster.alias, target.cluster.alias}
        left = {client.cluster.alias: client for client in others if client.cluster.alias not in ends}
        if {claim.source_id for claim in found} - seen:
            # Which of them is on the way is told by their ids alone: they are asked all at once.
            for claims in await asyncio.gather(
                *(_claims_in(client, own_links, lambda _: True, free) for client in left.values())
            ):
                found += claims
    return found


async def neighbouring_claims(
    clients: Iterable[Client], own_links: Collection[str], selects: Selects, free: Collection[str] = ()
) -> list[Claim]:
    """What links other than our own write to clusters, of the topics that ours select; of those that are not run now as
    claims that rest.

    Clocks of two hosts differ, so a controller that seems silent is waited for: for a new beat of it, or until it would
    have beaten several times, but not where its link is known to be `free`. A ledger we may not read says nothing: then
    only the audit finds what somebody else writes.
    """
    found = await asyncio.gather(*(_claims_in(client, own_links, selects, free) for client in clients))
    return list(chain.from_iterable(found))


async def _claims_in(
    client: Client, own_links: Collection[str], selects: Selects, free: Collection[str]
) -> list[Claim]:
    """What other links write to a cluster, nothing where it does not answer."""
    try:
        memory = await remembered(client)
        known = [memory.of(link) for link in memory.links if link not in own_links]
        found = {each.link: each.copy() for each in known if any(map(selects, each.topics))}
        alive = {link for link, each in found.items() if _is_fresh(each)}
        settled = alive.union(free)
        doubtful = {link: each for link, each in found.items() if link not in settled and _may_live(each)}
        # Of what cannot be read any more nothing is concluded.
        with contextlib.suppress(ClusterError):
            alive |= await _heard(memory, doubtful)
    except ClusterError:
        return []
    return [
        claim
        for link in sorted(found)
        for claim in _claims(found[link], is_resting=link not in alive)
        if selects(claim.target_topic)
    ]


def _is_fresh(known: LinkMemory) -> bool:
    """Whether its controller beat in these seconds, by both clocks."""
    return known.controller is not None and abs(now_ms() - known.heard_ms) <= SILENCE_S * _MS_PER_S


def _may_live(known: LinkMemory) -> bool:
    """Whether it has a controller that may only seem to be silent."""
    return (
        known.controller is not None
        and abs(now_ms() - known.heard_ms) <= _SKEW_S * _MS_PER_S
        and liveness_of(known.controller.whereabouts) is not Liveness.DEAD
    )


async def _heard(memory: LedgerMemory, before: Mapping[str, LinkMemory]) -> set[str]:
    """Those of these links whose controllers are heard from now on.

    :raises ClusterError: The ledger cannot be read any more.
    """
    waiting, heard = set(before), set[str]()
    deadline = time.monotonic() + SILENCE_S
    while waiting and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
        await memory.refresh()
        for link in list(waiting):
            controller = memory.of(link).controller
            if controller != before[link].controller:
                waiting.discard(link)
                if controller is not None:
                    heard.add(link)
    return heard


def _claims(known: LinkMemory, *, is_resting: bool) -> list[Claim]:
    identity = known.documents.get(f"{LinkDocument.KIND}/{known.link}")
    if not isinstance(identity, LinkDocument):
        return []
    return [
        Claim(
            link=known.link,
            source_topic=document.source_topic,
            target_topic=topic,
            source_id=identity.source_cluster_id,
            target_id=identity.target_cluster_id,
            is_mapped=document.is_mapped,
            is_resting=is_resting,
            tree=identity.tree,
        )
        for topic, document in known.topics.items()
        if not _was_never_begun(document)
    ]


def _was_never_begun(document: TopicDocument) -> bool:
    """Whether the link only wanted the topic: it was refused, perhaps because others write it."""
    return document.target_topic_id == NO_TOPIC_ID and document.problem is not None
