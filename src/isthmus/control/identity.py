"""Who a link is to its target: the producer ids it writes with, allocated once and kept in the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.cluster.brokers import describe_cluster
from isthmus.errors import PlanRefused
from isthmus.lane.producer import ProducerIdentity, allocate_producer
from isthmus.ledger.documents import Document, LinkDocument
from isthmus.ledger.link import LinkLedger
from isthmus.model.link import Link
from isthmus.wire.client import Client


async def cluster_ids(link: Link, source: Client, target: Client) -> tuple[str, str]:
    """The ids of the link's clusters.

    :raises PlanRefused: They are one and the same cluster.
    :raises ClusterError: One of them does not answer.
    """
    source_id = (await describe_cluster(source)).cluster_id
    target_id = (await describe_cluster(target)).cluster_id
    if source_id == target_id:
        raise PlanRefused(
            f"{link.source.alias} and {link.target.alias} are the same cluster ({source_id})",
            hint="Give the link two clusters: a topic cannot be mirrored into itself.",
        )
    return source_id, target_id


async def producer_identity(ledger: LinkLedger, target: Client, *, source_id: str, target_id: str) -> ProducerIdentity:
    """The producer ids of the link, new ones where the ledger has none for this target cluster.

    :raises PlanRefused: The link was made for another source cluster.
    :raises Fenced: Another controller has taken the link over.
    :raises ClusterError: The target gives no producer ids.
    """
    known = known_identity(ledger.link, ledger.documents, source_id=source_id, target_id=target_id)
    if known is not None:
        return known
    identity = ProducerIdentity(
        producer_id=await allocate_producer(target),
        marker_producer_id=await allocate_producer(target),
    )
    await ledger.write(
        LinkDocument(
            link=ledger.link,
            source_cluster_id=source_id,
            target_cluster_id=target_id,
            producer_id=identity.producer_id,
            marker_producer_id=identity.marker_producer_id,
        )
    )
    return identity


def known_identity(
    link: str, documents: Mapping[str, Document], *, source_id: str, target_id: str
) -> ProducerIdentity | None:
    """The producer ids a link has by its ledger, `None` where it has none for this target cluster.

    :raises PlanRefused: The link was made for another source cluster.
    """
    known = documents.get(f"{LinkDocument.KIND}/{link}")
    if not isinstance(known, LinkDocument) or known.target_cluster_id != target_id:
        return None
    if known.source_cluster_id != source_id:
        raise PlanRefused(
            f"link {link} mirrored from cluster {known.source_cluster_id} until now, "
            f"and its source is cluster {source_id} today",
            hint="Offsets of another cluster mean other records: give the link a new name and "
            "new target topics, or restore bootstrap_servers of its source.",
        )
    return ProducerIdentity(producer_id=known.producer_id, marker_producer_id=known.marker_producer_id)
