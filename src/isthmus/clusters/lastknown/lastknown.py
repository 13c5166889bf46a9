"""The memories that clusters have of each other: written while links run, read when a cluster is unreachable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from isthmus.clusters.lastknown.contents import NamesOfLink, contents
from isthmus.errors import ClusterError, ConfigError, IsthmusError, UnsupportedByBroker
from isthmus.kafka.admin.brokers import describe_cluster, told_releases
from isthmus.kafka.admin.features import features
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.documents.lastknown import KnownClusterDocument, KnownNamesDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import LedgerWriter
from isthmus.local.host import whereabouts
from isthmus.memory.links import now_ms
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.lastknown import (
    KnownBroker,
    KnownCluster,
    KnownFeature,
    LastKnown,
    Memories,
    newest,
)

PATIENCE_S: Final = 10.0
"""The time (s) that a cluster may take: memories are not worth a longer wait."""
_WRITE_S: Final = 5.0


class _Note(NamedTuple):
    """A task: `keeper` is to remember `seen` and its contents of the namespaces of links."""

    seen: Cluster
    keeper: Cluster
    names: list[NamesOfLink]


async def remember(links: Sequence[Link], session: ClientSession, declared: Iterable[str]) -> None:
    """Have the target of each link remember its source, and the source of a `declared` link its target.

    Nothing is ever written to the source of a link from a configuration file. A failed write is made the next time.
    """
    both_ways = frozenset(declared)
    # Many links between the same two clusters look at them once.
    notes: dict[tuple[str, str], _Note] = {}
    for link in links:
        sides = [(link.source, link.target, True)]
        sides += [(link.target, link.source, False)] if link.name in both_ways else []
        for seen, keeper, is_source in sides:
            note = notes.setdefault((seen.alias, keeper.alias), _Note(seen, keeper, []))
            note.names.append(NamesOfLink(link, is_source))
    await asyncio.gather(*(_remember(note, session) for note in notes.values()))


async def _remember(note: _Note, session: ClientSession) -> None:
    with contextlib.suppress(IsthmusError, TimeoutError):
        client = session.client(note.seen)
        async with asyncio.timeout(PATIENCE_S):
            metadata = await client.metadata(None)
            seen = await look(client, metadata, note.names[0].link.name)
        documents: list[Document] = [KnownClusterDocument(cluster=seen)]
        # A cluster with many names is remembered even if reading them takes too long.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                names = await contents(client, metadata, note.names)
                documents += [KnownNamesDocument(link=each.link, names=each) for each in names]
        writer = LedgerWriter(session.client(note.keeper))
        try:
            # If there is no ledger yet, the link itself creates it.
            await writer.append(documents, term_s=_WRITE_S)
        finally:
            writer.close()


async def look(client: Client, metadata: Metadata, link: str) -> KnownCluster:
    """Describe the current state of a cluster, by a few small requests; `metadata` is of all its topics.

    :raises ClusterError: The cluster does not answer.
    """
    described = await describe_cluster(client)
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
        nodes=tuple(
            KnownBroker(node, broker.rack or "", str(releases.get(node, "")))
            for node, broker in sorted(described.brokers.items())
        ),
    )


async def last_known(alias: str, others: Sequence[Client]) -> LastKnown:
    """Return the newest memories that other clusters have of a cluster, which itself is not asked.

    :raises ConfigError: None of them remembers it.
    :raises ClusterError: None of those that answer remembers it, and some do not answer.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    found: Mapping[str, Memories | None] = dict(
        zip([other.cluster.alias for other in others], await asyncio.gather(*map(_read_memories, others)), strict=True)
    )
    away = tuple(other for other, held in found.items() if held is None)
    memories = {other: held for other, held in found.items() if held is not None}
    known = newest(memories, alias, now_ms=now_ms(), away=away)
    if known is None:
        asked = f"asked were {', '.join(memories)}" if memories else "no other cluster of the configuration answers"
        message = f"nothing is remembered of a cluster {alias}: {asked}"
        hint = "A link that runs from it or, if it is a declared one, into it writes down how it stands each minute."
        if away:
            raise ClusterError(message, cluster=alias, hint=hint)
        raise ConfigError(message, hint=hint)
    return known


async def _read_memories(client: Client) -> Memories | None:
    """Read the memories of other clusters from a ledger; `None` if it cannot be read."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = (await read_documents(client, kinds=(KnownClusterDocument, KnownNamesDocument))).values()
    except (ClusterError, TimeoutError):
        return None
    clusters = [each.cluster for each in KnownClusterDocument.find_all(found)]
    return Memories(clusters, [each.names for each in KnownNamesDocument.find_all(found)])
