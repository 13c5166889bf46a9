"""Lists and describes the groups of a cluster, and reads their committed positions; many groups per request.

ListGroups (API 16), DescribeGroups (15), ConsumerGroupDescribe (69), ShareGroupDescribe (77), StreamsGroupDescribe (89)
and OffsetFetch (9). Each needs DESCRIBE on the group; ListGroups shows only groups for which that is granted, or all
with DESCRIBE on the cluster. Positions on topics that we may not DESCRIBE are left out by the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import every_broker
from isthmus.kafka.client import Client
from isthmus.kafka.groups.coordinators import PATIENCE_S, Answer, ask_coordinators, ask_node
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from isthmus.kafka.outcomes import Outcomes
from isthmus.model import naming
from isthmus.model.kafka.group import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    Committed,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    offsets_partition,
)
from isthmus.model.kafka.rights import Right, on_cluster, on_group, on_topic
from isthmus.model.naming import TopicT

OFFSETS_TOPIC: Final = naming.OFFSETS_TOPIC
CONSUMER_PROTOCOL: Final = "consumer"
_STATES_FROM: Final = 4
_TYPES_FROM: Final = 5
_MANY_GROUPS_FROM: Final = 8
_ALL_TOPICS_FROM: Final = 2
_BY_NAME_UP_TO: Final = 9
"""From the next version on OffsetFetch identifies topics by id, and leaves deleted ones out."""
_AT_ONCE: Final = 32
_NEWER: Final = (
    (GroupType.CONSUMER, ConsumerGroupDescribeRequest),
    (GroupType.SHARE, ShareGroupDescribeRequest),
    (GroupType.STREAMS, StreamsGroupDescribeRequest),
)

Positions = dict[tuple[TopicT, int], Committed]
CommittedOffsets = Outcomes[str, Positions[TopicT]]
"""The positions of groups. Who asks a cluster states which side it is: an answer does not."""


async def list_groups(client: Client) -> Outcomes[int, tuple[GroupListing, ...]]:
    """List the groups that each broker coordinates, by node id. A group is at one broker, unless it is moving.

    Brokers before 2.6 do not report the state, those before 3.8 not the type: then every group is a classic one.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    nodes = await every_broker(client)
    answers = await asyncio.gather(*(_list(client, node) for node in nodes), return_exceptions=True)
    values: dict[int, tuple[GroupListing, ...]] = {}
    errors: dict[int, ClusterError] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, ClusterError):
            errors[node] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            values[node] = answer
    return Outcomes(values, errors)


def merge_listings(outcomes: Outcomes[int, tuple[GroupListing, ...]]) -> dict[str, GroupListing]:
    """The groups of all brokers that answered, by name and sorted."""
    return {g.group: g for g in sorted((g for groups in outcomes.values.values() for g in groups), key=_name)}


def _name(listing: GroupListing) -> str:
    return listing.group


async def _list(client: Client, node: int) -> tuple[GroupListing, ...]:
    answer = await client.broker(node, ListGroupsRequest(states_filter=[], types_filter=[]))
    what, right = f"listing the groups of broker {node}", on_cluster("DESCRIBE")
    codes.raise_for_code(answer.error_code, what, right, cluster=client.cluster.alias)
    version = answer.API_VERSION
    return tuple(
        GroupListing(
            group=group.group_id,
            type=_type(group.group_type) if version >= _TYPES_FROM else GroupType.CLASSIC,
            state=GroupState.of(group.group_state) if version >= _STATES_FROM else GroupState.UNKNOWN,
            protocol_type=group.protocol_type,
        )
        for group in answer.groups
    )


def _type(name: str) -> GroupType:
    known = {kind.value: kind for kind in GroupType}
    return known.get(name.lower(), GroupType.UNKNOWN)


async def describe_groups(
    client: Client, groups: Collection[str], *, patience_s: float = PATIENCE_S
) -> Outcomes[str, GroupDescription]:
    """Describe state, protocol and members of groups of any type. One that does not exist is described as `DEAD`.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not groups:
        return Outcomes()

    async def ask(node: int, asked: Sequence[str]) -> dict[str, Answer[GroupDescription]]:
        return await _describe(client, node, asked)

    found = await ask_coordinators(client, groups, ask, "describing group", _describe_rights, patience_s=patience_s)
    count = await _offsets_partition_count(client)
    if count is None:
        return found
    values = {
        group: replace(description, offsets_partition=offsets_partition(group, count))
        for group, description in found.values.items()
    }
    return Outcomes(values, found.errors)


def _describe_rights(group: str) -> tuple[Right, Right]:
    return on_group("DESCRIBE", group), on_topic("DESCRIBE")


def _delete_rights(group: str) -> tuple[Right, Right]:
    return on_group("DELETE", group), on_topic("DESCRIBE")


async def _offsets_partition_count(client: Client) -> int | None:
    """The number of partitions of `__consumer_offsets`; `None` if we may not see it."""
    topic = (await client.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
    return None if topic is None or topic.error_code else len(topic.partitions)


async def _describe(client: Client, node: int, groups: Sequence[str]) -> dict[str, Answer[GroupDescription]]:
    """Describe groups by the request of each type, the classic one first: a coordinator knows a group by one type."""
    answers = await _describe_classic(client, node, groups)
    offered = (await client.connection(node)).api_versions
    for kind, request_class in _NEWER:
        rest = [group for group, answer in answers.items() if answer.value is not None and _is_absent(answer.value)]
        if rest and request_class.API_KEY in offered:
            request = request_class(group_ids=rest, include_authorized_operations=False)
            described = (await client.broker(node, request)).groups
            answers.update(
                (g.group_id, _read_newer(node, kind, g)) for g in described if g.error_code not in _NOT_OF_TYPE
            )
    return answers


_NOT_OF_TYPE: Final = frozenset({codes.GROUP_ID_NOT_FOUND, codes.INVALID_GROUP_ID, codes.UNSUPPORTED_VERSION})


def _is_absent(description: GroupDescription) -> bool:
    return description.state is GroupState.DEAD and description.type is GroupType.CLASSIC


async def _describe_classic(client: Client, node: int, groups: Sequence[str]) -> dict[str, Answer[GroupDescription]]:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    answer = await client.broker(node, request)
    return {group.group_id: _read_classic(node, group) for group in answer.groups}


def _read_classic(node: int, group: Any) -> Answer[GroupDescription]:
    if group.error_code not in (codes.NONE, codes.GROUP_ID_NOT_FOUND):
        return Answer(group.error_code, None, getattr(group, "error_message", None))
    is_absent = group.error_code == codes.GROUP_ID_NOT_FOUND
    description = GroupDescription(
        group=group.group_id,
        type=GroupType.CLASSIC,
        state=GroupState.DEAD if is_absent else GroupState.of(group.group_state),
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=_decode_assignment(group.protocol_type, member.member_assignment),
            )
            for member in group.members
        ),
        coordinator=node,
    )
    return Answer(codes.NONE, description)


def _decode_assignment(protocol_type: str, assignment: bytes) -> tuple[PartitionKey, ...]:
    if protocol_type != CONSUMER_PROTOCOL or not assignment:
        return ()
    try:
        decoded = ConsumerProtocolAssignment.decode(bytes(assignment))
        return tuple(sorted((t.topic, partition) for t in decoded.assigned_partitions for partition in t.partitions))
    except Exception:  # noqa: BLE001 - members write these bytes, and an assignor may write what it likes
        return ()


def _read_newer(node: int, kind: GroupType, group: Any) -> Answer[GroupDescription]:
    if group.error_code != codes.NONE:
        return Answer(group.error_code, None, group.error_message)
    description = GroupDescription(
        group=group.group_id,
        type=kind,
        state=GroupState.of(group.group_state),
        protocol_type=CONSUMER_PROTOCOL if kind is GroupType.CONSUMER else kind.value,
        protocol=getattr(group, "assignor_name", ""),
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=getattr(member, "instance_id", None),
                client_id=member.client_id,
                client_host=member.client_host,
                rack=member.rack_id,
                assignment=() if kind is GroupType.STREAMS else _list_assigned(member.assignment.topic_partitions),
            )
            for member in group.members
        ),
        coordinator=node,
    )
    return Answer(codes.NONE, description)


def _list_assigned(topics: Iterable[Any]) -> tuple[PartitionKey, ...]:
    return tuple(sorted((topic.topic_name, partition) for topic in topics for partition in topic.partitions))


async def committed_offsets(
    client: Client,
    groups: Collection[str],
    *,
    require_stable: bool = False,
    patience_s: float = PATIENCE_S,
    node: int | None = None,
) -> CommittedOffsets[TopicT]:
    """Read all committed positions of the groups; none for a group that does not exist.

    With `require_stable` a group with a commit in an open transaction is waited for (KIP-447), else the commit before
    it counts. If `node` is given only that broker is asked, once: another one that is taken for the coordinator may be
    cut off, and return older positions.
    """

    async def ask(node: int, asked: Sequence[str]) -> Mapping[str, Answer[Positions[TopicT]]]:
        version = (await client.connection(node)).version_of(_offset_fetch(asked[:1], require_stable))
        if version >= _MANY_GROUPS_FROM:
            answer = await client.broker(node, _offset_fetch(asked, require_stable))
            return {group.group_id: _positions(group, group.topics) for group in answer.groups}
        return await _fetch_one_by_one(client, node, asked, require_stable)

    what = "reading the committed offsets of group"
    if node is not None:
        return await ask_node(client, node, groups, ask, what, _describe_rights)
    return await ask_coordinators(client, groups, ask, what, _describe_rights, patience_s=patience_s)


async def _fetch_one_by_one(
    client: Client, node: int, groups: Sequence[str], require_stable: bool
) -> Mapping[str, Answer[Positions[TopicT]]]:
    free = asyncio.Semaphore(_AT_ONCE)

    async def fetch(group: str) -> Answer[Positions[TopicT]]:
        async with free:
            request = OffsetFetchRequest(
                group_id=group,
                topics=None,
                require_stable=require_stable,
                min_version=_ALL_TOPICS_FROM,
                max_version=_MANY_GROUPS_FROM - 1,
            )
            answer = await client.broker(node, request)
        return _positions(answer, answer.topics)

    return dict(zip(groups, await asyncio.gather(*map(fetch, groups)), strict=True))


def _offset_fetch(groups: Sequence[str], require_stable: bool) -> OffsetFetchRequest:
    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[group_class(group_id=group, member_id=None, member_epoch=-1, topics=None) for group in groups],
        require_stable=require_stable,
        max_version=_BY_NAME_UP_TO,
    )


def _positions(answer: Any, topics: Iterable[Any]) -> Answer[Positions[TopicT]]:
    if answer.error_code == codes.GROUP_ID_NOT_FOUND:
        return Answer(codes.NONE, {})
    if answer.error_code != codes.NONE:
        return Answer(answer.error_code)
    found: Positions[TopicT] = {}
    for topic in topics:
        for p in topic.partitions:
            if p.error_code != codes.NONE:
                return Answer(p.error_code)
            if p.committed_offset != NO_OFFSET:
                epoch = p.committed_leader_epoch
                found[topic.name, p.partition_index] = Committed(
                    p.committed_offset, NO_LEADER_EPOCH if epoch is None else epoch, p.metadata or ""
                )
    return Answer(codes.NONE, found)


async def delete_groups(client: Client, groups: Collection[str]) -> Outcomes[str, bool]:
    """Delete groups without members (API 42). Return whether each existed. Needs DELETE on each."""

    async def ask(node: int, asked: Sequence[str]) -> Mapping[str, Answer[bool]]:
        answer = await client.broker(node, DeleteGroupsRequest(groups_names=list(asked)))
        return {result.group_id: _deletion_answer(result.error_code) for result in answer.results}

    return await ask_coordinators(client, groups, ask, "deleting group", _delete_rights)


def _deletion_answer(code: int) -> Answer[bool]:
    return Answer(codes.NONE, False) if code == codes.GROUP_ID_NOT_FOUND else Answer(code, True)
