"""Identities: clusters by their ids whatever the file calls them, and a link by the producer ids it writes with."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.errors import PlanRefused, Unreachable
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.ledger.documents.kinds import Document, LinkDocument
from isthmus.ledger.link import LinkLedger
from isthmus.memory.links import read_ledger
from isthmus.model.copyflags import NUMBER_BITS, distributor_producer_id, level_of
from isthmus.model.link import Link
from isthmus.model.problem import Problem


def same_clusters(ids: Mapping[str, str], links: Collection[Link]) -> Iterator[tuple[Problem, bool]]:
    """Yield where several aliases are one cluster, by the ids that are known; and whether a link joins them.

    That link cannot run. Otherwise it may be intended: another listener, or another login.
    """
    aliases: dict[str, list[str]] = defaultdict(list)
    for alias, cluster_id in ids.items():
        aliases[cluster_id].append(alias)
    for cluster_id, same in aliases.items():
        if len(same) > 1:
            joining = [f"link {link.name}" for link in links if {link.source.alias, link.target.alias} <= {*same}]
            yield Problem(f"{_and(same)} are the same cluster ({cluster_id})", _advice(same, joining)), bool(joining)


def _advice(same: list[str], joining: list[str]) -> str:
    if joining:
        return f"Correct bootstrap_servers of {_and(same, 'or')}: {_and(joining)} would mirror the cluster into itself."
    return (
        f"Keep {same[0]} in the file and write it in the links instead of {_and(same[1:])}, or correct "
        "bootstrap_servers if they are meant to be different clusters."
    )


def _and(names: list[str], word: str = "and") -> str:
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


async def cluster_ids(link: Link, source: Client, target: Client) -> tuple[str, str]:
    """Return the ids of the link's clusters.

    :raises PlanRefused: They are one and the same cluster.
    :raises ClusterError: One of them does not answer.
    """
    source_id = (await describe_cluster(source)).cluster_id
    target_id = (await describe_cluster(target)).cluster_id
    if (refusal := mirrored_into_itself(link, source_id, target_id)) is not None:
        raise refusal
    return source_id, target_id


def pin_clusters(link: Link, source_id: str, target_id: str) -> Link:
    """Return the link between these two clusters and no others, wherever their addresses lead from now on."""
    source, target = replace(link.source, cluster_id=source_id), replace(link.target, cluster_id=target_id)
    return replace(link, source=source, target=target)


def mirrored_into_itself(link: Link, source_id: str, target_id: str) -> PlanRefused | None:
    """Return why the link cannot run if both its clusters are the same, `None` where they are not."""
    for problem, _ in same_clusters({link.source.alias: source_id, link.target.alias: target_id}, [link]):
        return PlanRefused(problem.message, hint=problem.hint)
    return None


async def producer_identity(
    ledger: LinkLedger, target: Client, link: Link, *, source_id: str, target_id: str
) -> ProducerIdentity:
    """Return the producer ids of the link, new ones where the ledger has none for this target cluster.

    A distributor's producer id contains its level, so that readers of its records know what to leave alone.

    :raises PlanRefused: The link was made for another source cluster, or a distributor for another target or level.
    :raises Fenced: Another controller has taken the link over.
    :raises ClusterError: The target gives no producer ids.
    """
    async with ClientSession() as session:
        known = await checked_identity(link, ledger.documents, session, source_id=source_id, target_id=target_id)
    if known is not None:
        return known
    if link.level:
        producer_id = distributor_producer_id(link.level, secrets.randbits(NUMBER_BITS))
    else:
        producer_id = await allocate_producer(target)
    identity = ProducerIdentity(producer_id=producer_id, marker_producer_id=await allocate_producer(target))
    await ledger.write(
        LinkDocument(
            link=ledger.link,
            source_cluster_id=source_id,
            target_cluster_id=target_id,
            producer_id=identity.producer_id,
            marker_producer_id=identity.marker_producer_id,
            tree=link.tree,
        )
    )
    return identity


async def checked_identity(
    link: Link, documents: Mapping[str, Document], session: ClientSession, *, source_id: str, target_id: str
) -> ProducerIdentity | None:
    """Return the producer ids that a link continues with, `None` where it may begin with new ones. `documents` are
    those of the target's ledger.

    :raises PlanRefused: The link was made for another source cluster, or a distributor for another target or level.
    :raises ClusterError: A cluster of the tree does not answer, so that this is unknown.
    """
    known = known_identity(link.name, documents, source_id=source_id, target_id=target_id)
    if known is None:
        await _check_beginning(link, source_id, session)
    else:
        _check_level(link, known)
    return known


def _check_level(link: Link, known: ProducerIdentity) -> None:
    """Require that the level is unchanged: records under another level would be copied again, or not at all.

    :raises PlanRefused: The distributor has another level than it had, or the link has become one, or is none any more.
    """
    was = level_of(known.producer_id)
    if was != link.level:
        raise PlanRefused(
            f"link {link.name} distributed at level {was} until now, and is to at level {link.level}"
            if was and link.level
            else f"link {link.name} {'distributed' if was else 'mirrored'} until now, and is to "
            f"{'distribute' if link.level else 'mirror'}",
            hint="Levels keep their meaning while messages that have them are retained: state the levels that the tree "
            "had ({level: ..., clusters: [...]}), or give it another name and other topics.",
        )


async def _check_beginning(link: Link, source_id: str, session: ClientSession) -> None:
    """Require that no cluster has records of the source by distributors that the tree does not have: in a tree of
    another shape everything would be copied again. And that no cluster is in the tree under two names.

    :raises PlanRefused: One has, or is.
    :raises ClusterError: A cluster of the tree does not answer, so that this is unknown.
    """
    role = link.distributor
    ids = {link.source.alias: source_id}
    for cluster, names in () if role is None else role.others:
        client = session.client(cluster)
        try:
            ids[cluster.alias] = (await describe_cluster(client)).cluster_id
            memory = await read_ledger(client)
        except Unreachable:
            if role is None or cluster.alias not in role.former:
                raise
            # It may have been left because it is gone. Before it began there all others were checked.
            continue
        for problem, _ in same_clusters(ids, ()):
            raise PlanRefused(problem.message, hint="Every cluster is one leaf of a tree: correct bootstrap_servers.")
        known = [memory.of(name).identity for name in set(memory.links) - names]
        for document in known:
            if document is not None and (document.tree, document.source_cluster_id) == (link.tree, source_id):
                raise PlanRefused(
                    f"{cluster.alias} got messages of {link.source.alias} by {document.link} until now, which the tree "
                    f"{link.tree} does not have any more: everything would come once more",
                    hint="Write the clusters of the tree as they were; a new one may be added above all others: "
                    "[[a, b], c] for [a, b].",
                )


def known_identity(
    link: str, documents: Mapping[str, Document], *, source_id: str, target_id: str
) -> ProducerIdentity | None:
    """Return the producer ids of a link in its ledger, `None` where it has none for this target cluster.

    :raises PlanRefused: The link was made for another source cluster.
    """
    known = LinkDocument.find(documents, link)
    if known is None or known.target_cluster_id != target_id:
        return None
    if known.source_cluster_id != source_id:
        raise PlanRefused(
            f"link {link} mirrored from cluster {known.source_cluster_id} until now, "
            f"and its source is cluster {source_id} today",
            hint="Offsets of another cluster mean other records: give the link a new name and "
            "new target topics, or restore bootstrap_servers of its source.",
        )
    return ProducerIdentity(producer_id=known.producer_id, marker_producer_id=known.marker_producer_id)
