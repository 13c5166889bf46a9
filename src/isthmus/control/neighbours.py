"""Links that other controllers run: what they write is theirs, and mirroring it back would be a circle."""

from __future__ import annotations

from collections.abc import Collection

from isthmus.control.claims import Claim
from isthmus.control.recollection import Recollection, now_ms, read_ledger
from isthmus.errors import ClusterError
from isthmus.ledger.documents import LinkDocument, link_of
from isthmus.model.state import ControllerState
from isthmus.wire.client import Client


async def neighbouring_claims(client: Client, own_links: Collection[str]) -> list[Claim]:
    """What links that are run now, other than our own, write to a cluster.

    A ledger we may not read says nothing: then only the audit finds what somebody else writes.
    """
    try:
        entries = await read_ledger(client)
    except ClusterError:
        return []
    claims: list[Claim] = []
    for link in sorted({link_of(entry.key) for entry in entries} - {*own_links, ""}):
        known = Recollection.of(link, entries)
        identity = known.documents.get(f"{LinkDocument.KIND}/{link}")
        if known.controller_state(now_ms()) is not ControllerState.ALIVE or not isinstance(identity, LinkDocument):
            continue
        claims.extend(
            Claim(
                link=link,
                topic=topic,
                source_id=identity.source_cluster_id,
                target_id=identity.target_cluster_id,
            )
            for topic in known.topics
        )
    return claims
