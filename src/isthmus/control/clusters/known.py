"""What clusters remember of each other: written down while links run, read when a cluster is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from isthmus.cluster.brokers import describe_cluster, told_releases
from isthmus.cluster.features import features
from isthmus.control.links.host import whereabouts
from isthmus.control.links.memory import now_ms
from isthmus.errors import ClusterError, IsthmusError, UnsupportedByBroker
from isthmus.ledger.documents import decoded, kind_of
from isthmus.ledger.known import KnownClusterDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.view import LedgerView
from isthmus.model.cluster import Cluster
from isthmus.model.known import KnownCluster, KnownFeature, LastKnown, newest
from isthmus.model.link import Link
from isthmus.wire.client import Client

PATIENCE_S: Final = 5.0
"""How long a cluster may take: what is remembered is worth no wait."""
_WRITE_S: Final = 5.0


class _Note(NamedTuple):
    """That `keeper` is to remember `seen`, on behalf of a link."""

    link: str
    seen: Cluster
    keeper: Cluster


async def remember(links: Sequence[Link], declared: Iterable[str]) -> None:
    """Have the target of each link remember its source, and the source of a link that was `declared` its target.

    Nothing is ever written to the source of a link that a file describes. What fails is done the next time.
    """
    both_ways = frozenset(declared)
    notes = [_Note(link.name, link.source, link.target) for link in links]
    notes += [_Note(link.name, link.target, link.source) for link in links if link.name in both_ways]
    # Many links between the same two clusters remember the same.
    once = {(note.seen.alias, note.keeper.alias): note for note in notes}
    await asyncio.gather(*(_remember(note) for note in once.values()))


async def _remember(note: _Note) -> None:
    with contextlib.suppress(IsthmusError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S), Client(note.seen) as client:
            seen = await look(client, note.link)
        async with Client(note.keeper) as keeper:
            writer = LedgerWriter(keeper)
            try:
                # Where there is no ledger yet, the link itself makes it.
                await writer.append([KnownClusterDocument(cluster=seen)], term_s=_WRITE_S)
            finally:
                writer.close()


async def look(client: Client, link: str) -> KnownCluster:
    """A cluster as it is now, in a few small requests.

    :raises ClusterError: It does not answer.
    """
    described, metadata = await asyncio.gather(describe_cluster(client), client.metadata(None))
    releases = await told_releases(client, described.brokers)
    levels = None
    with contextlib.suppress(UnsupportedByBroker):
        levels = await features(client)
    return KnownCluster(
        cluster_id=described.cluster_id,
        alias=client.cluster.alias,
        versions=tuple(sorted(set(map(str, releases.values())))),
        brokers=len(described.brokers),
        topics=len(metadata.topics),
        features=tuple(KnownFeature(feature.name, feature.level) for feature in levels or ()),
        link=link,
        host=whereabouts().host,
        seen_ms=now_ms(),
    )


async def last_known(alias: str, others: Sequence[Cluster]) -> LastKnown:
    """What other clusters remember of one, the newest of it. The cluster itself is not asked.

    :raises ClusterError: None of those that answer remembers anything.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    found: Mapping[str, list[KnownCluster] | None] = dict(
        zip([other.alias for other in others], await asyncio.gather(*map(_held, others)), strict=True)
    )
    away = tuple(other for other, held in found.items() if held is None)
    memories = {other: held for other, held in found.items() if held is not None}
    known = newest(memories, alias, now_ms=now_ms(), away=away)
    if known is None:
        asked = f"asked were {', '.join(memories)}" if memories else "no other cluster of the configuration answers"
        raise ClusterError(
            f"nothing is remembered of a cluster {alias}: {asked}",
            cluster=alias,
            hint="A link that runs from it or, if it is a declared one, into it writes down how it stands each minute.",
        )
    return known


async def _held(cluster: Cluster) -> list[KnownCluster] | None:
    """What a ledger holds of other clusters; `None` where it cannot be read."""
    documents: dict[str, KnownCluster] = {}
    try:
        async with asyncio.timeout(PATIENCE_S), Client(cluster) as client:
            view = LedgerView(client)
            try:
                for entry in (await view.look()).entries:
                    if kind_of(entry.key) == KnownClusterDocument.KIND and entry.value is not None:
                        document = decoded(entry.key, entry.value)
                        if isinstance(document, KnownClusterDocument):
                            documents[entry.key] = document.cluster
            finally:
                view.close()
    except (ClusterError, TimeoutError):
        return None
    return list(documents.values())
