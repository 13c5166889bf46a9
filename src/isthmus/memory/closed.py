"""Find the namespaces that follow by a link and are closed to others, by the target's ledger."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MovableGatewayDocument, NamespaceDocument
from isthmus.memory.links import LedgerMemory, age_most_s, now_ms, read_ledger
from isthmus.model.gateways.synchrony import HEARD_S
from isthmus.model.link import Link
from isthmus.model.links.writability import KeptBy, is_enforced, kept_by
from isthmus.model.namespace import Namespace, NamespaceNaming


def following(link: Link) -> tuple[Namespace, ...]:
    """Return the namespaces of topics and groups that follow by a link; none if the link is not declared."""
    namings = (link.topics.naming, link.groups.naming)
    return tuple(each.target for naming in namings if isinstance(naming, NamespaceNaming) for each in naming.maps)


def find_reserved(link: Link, ledger: LedgerMemory, cluster_id: str | None) -> dict[Namespace, KeptBy]:
    """Find the following namespaces that are reserved at the cluster with this id, by its ledger, and what closes them.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    wanted = following(link)
    is_behind = bool(wanted) and has_gateway(ledger, cluster_id)
    found = {
        document.namespace: kept_by(document.registers, has_gateway=is_behind)
        for document in NamespaceDocument.find_all(ledger.find_unlinked().values() if wanted else ())
        if document.cluster == cluster_id and document.namespace in wanted
    }
    return {namespace: kept for namespace, kept in found.items() if kept is not None}


def has_gateway(ledger: LedgerMemory, cluster_id: str | None, *, hides: bool = False) -> bool:
    """Whether a live gateway serves the cluster with this id and refuses writes to reserved names there, or, with
    `hides`, hides topics that clients must not read yet.

    :raises PlanRefused: A newer Isthmus wrote it.
    """
    now = now_ms()
    written, silences = ledger.unlinked_written_ms(), ledger.unlinked_silences(now)
    return any(
        (each.hides if hides else each.keeps_reserved)
        and each.serves == cluster_id
        and silences[each.key].least_s <= HEARD_S
        # Its own clock counts only while this process has not looked for long enough.
        and min(silences[each.key].most_s, age_most_s(written[each.key], now)) <= HEARD_S
        for each in MovableGatewayDocument.find_all(ledger.find_unlinked().values())
    )


async def read_closed(link: Link, target: Client) -> Sequence[NamespaceDocument]:
    """Read the following namespaces that access rules are to close.

    :raises ClusterError: The target does not answer.
    """
    wanted = following(link)
    if not wanted:
        return ()
    cluster_id = (await describe_cluster(target)).cluster_id
    return [
        document
        for document in NamespaceDocument.find_all((await read_ledger(target)).find_unlinked().values())
        if document.cluster == cluster_id and document.namespace in wanted and is_enforced(document.registers)
    ]
