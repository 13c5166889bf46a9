"""The access rights a link needs, and which of them are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from isthmus.access.grants import places_of
from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import AllowedOperations, Operation, describe_cluster, topic_operations
from isthmus.kafka.admin.changes import NewTopic, create_topics
from isthmus.kafka.client import Client
from isthmus.kafka.groups.permissions import group_operations
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.rights import Right, grant, join_names, on_cluster, on_group, on_topic
from isthmus.model.link import Link
from isthmus.model.links.needs import About, Need, Side, needs_of
from isthmus.model.mirrormaker import HEARTBEATS
from isthmus.model.offsetscopy import copy_topic
from isthmus.model.text.wording import format_count

_CHECK = "rights"
_OWN_TOPICS = (About.LEDGER, About.GROUP_LOG, About.OFFSET_SYNCS, About.CHECKPOINTS, About.HEARTBEATS, About.POSITIONS)


def topic_findings(
    subject: str, cluster: str, needs: Sequence[Need], operations: Mapping[str, AllowedOperations]
) -> Iterator[Finding]:
    """Yield a finding for each right that is missing on some topics, or one that all is well.

    `operations` are the allowed ones, by topic. The right to create topics is not examined here.
    """
    complete = True
    for need in needs:
        lacking = _find_lacking(need, operations)
        if lacking:
            complete = False
            yield _build_missing(subject, cluster, need, lacking, on_topic(need.operation, *lacking))
    if complete and operations:
        message = f"all rights on {format_count(len(operations), 'topic')} of {cluster}"
        yield Finding(level=Level.OK, subject=subject, check=_CHECK, message=message)


def cluster_findings(
    link: Link, side: Side, operations: AllowedOperations, *, about: About = About.CLUSTER, check: str = _CHECK
) -> Iterator[Finding]:
    """Yield a finding for each right on the cluster itself that is missing: `operations` are the allowed ones."""
    alias = _alias(link, side)
    for need in needs_of(link, side, about):
        if Operation[need.operation] not in operations:
            yield Finding(
                level=need.level,
                subject=link.name,
                check=check,
                message=f"{need.operation} on the cluster {alias} is missing: needed to {need.purpose}",
                hint=grant(on_cluster(need.operation), alias),
            )


async def own_topic_findings(link: Link, side: Side, client: Client) -> list[Finding]:
    """Find missing rights on topics that are not mirrored: on existing ones, and to create missing ones.

    :raises ClusterError: The cluster did not answer.
    """
    found: list[Finding] = []
    for about in _OWN_TOPICS:
        if needs := needs_of(link, side, about):
            (place,) = places_of(link, side, about)
            found.extend(await _examine_own_topic(link, _alias(link, side), client, place.name, needs))
    theirs = link.topics.mirror_maker
    if side is Side.SOURCE and theirs is not None and theirs.heartbeats:
        # No pattern has its name, so no other finding reports that it cannot be seen.
        needs = needs_of(link, side, About.MIRRORED)
        found.extend(await _examine_own_topic(link, _alias(link, side), client, HEARTBEATS, needs))
    return found


async def offsets_copy_findings(link: Link, source: Client, target: Client) -> list[Finding]:
    """Find missing rights on the topic that has a copy of the source's committed positions.

    :raises ClusterError: A cluster did not answer.
    """
    needs = needs_of(link, Side.TARGET, About.OFFSETS_COPY)
    if not needs:
        return []
    name = copy_topic((await describe_cluster(source)).cluster_id)
    return await _examine_own_topic(link, link.target.alias, target, name, needs)


async def _examine_own_topic(link: Link, alias: str, client: Client, name: str, needs: Sequence[Need]) -> list[Finding]:
    code = (await client.metadata([name])).topics[name].error_code
    if code != codes.UNKNOWN_TOPIC_OR_PARTITION:
        allowed = await topic_operations(client, [name])
        # A topic that we may not see exists, or would be refused anyhow.
        operations = allowed or ({name: AllowedOperations()} if code == codes.TOPIC_AUTHORIZATION_FAILED else {})
        return [f for f in topic_findings(link.name, alias, needs, operations) if f.level is not Level.OK]
    creating = [need for need in needs if need.operation == "CREATE"]
    if not creating:
        return []
    new = NewTopic(name=name, partition_count=1)
    imagined = await create_topics(client, [new], validate_only=True, asks_configs=False)
    return [_build_refusal(link, need, error) for need in creating for error in imagined.errors.values()]


async def declaring_findings(link: Link, side: Side, client: Client) -> list[Finding]:
    """Find missing rights to write declarations to a ledger in transactions. The rights of a controller at the target
    are examined elsewhere.

    :raises ClusterError: The cluster did not answer.
    """
    found: list[Finding] = []
    for about in (About.NAMESPACES,) if side is Side.TARGET else (About.TRANSACTIONS, About.NAMESPACES):
        for need in needs_of(link, side, about):
            (place,) = places_of(link, side, about)
            try:
                await Transaction(client, f"{place.name}declaration").probe()
            except NotAuthorized as error:
                found.append(_build_refusal(link, need, error))
    return found


async def group_rights_findings(link: Link, side: Side, client: Client, groups: Collection[str]) -> list[Finding]:
    """Find missing rights on these groups, by their names on this side. Brokers do not report rights on groups that do
    not exist.

    :raises ClusterError: The cluster did not answer.
    """
    operations, alias = await group_operations(client, groups), _alias(link, side)
    return [
        _build_missing(link.name, alias, need, lacking, on_group(need.operation, *lacking))
        for need in needs_of(link, side, About.GROUPS)
        if (lacking := _find_lacking(need, operations))
    ]


def _find_lacking(need: Need, operations: Mapping[str, AllowedOperations]) -> list[str]:
    if need.operation == "CREATE":
        return []
    return sorted(name for name, allowed in operations.items() if Operation[need.operation] not in allowed)


def _build_missing(subject: str, alias: str, need: Need, lacking: Sequence[str], right: Right) -> Finding:
    return Finding(
        level=need.level,
        subject=subject,
        check=_CHECK,
        message=f"{need.operation} is missing at {alias} on {join_names(lacking)}: needed to {need.purpose}",
        hint=grant(right, alias),
    )


def _build_refusal(link: Link, need: Need, error: ClusterError) -> Finding:
    why = f": needed to {need.purpose}" if isinstance(error, NotAuthorized) else ""
    return Finding(level=need.level, subject=link.name, check=_CHECK, message=f"{error.message}{why}", hint=error.hint)


def _alias(link: Link, side: Side) -> str:
    return (link.source if side is Side.SOURCE else link.target).alias
