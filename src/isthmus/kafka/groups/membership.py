"""Removes members that are gone from their groups: by LeaveGroup (API 13), and in groups that brokers assign (KIP-848)
by a last heartbeat of each member (ConsumerGroupHeartbeat, API 68).

A member that is still running gets an error with its next heartbeat, and joins again. Needs READ on the groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.consumer import LeaveGroupRequest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.coordinators import Answer, ask_coordinators
from isthmus.kafka.messages import ConsumerGroupHeartbeatRequest
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.group import GroupDescription, GroupMember, GroupType
from isthmus.model.kafka.rights import Right, on_group, on_topic

_SEVERAL_FROM: Final = 3
_REASON: Final = "its client has moved to another cluster"
_LEAVING: Final = -1
_GONE: Final = frozenset({codes.UNKNOWN_MEMBER_ID, codes.GROUP_ID_NOT_FOUND})
REMOVABLE: Final = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""The types of groups whose members can be removed."""


async def remove_members(client: Client, groups: Mapping[str, GroupDescription]) -> Outcomes[str, int]:
    """Remove the members of these groups, which have to be `REMOVABLE`. Return how many were still members, by group.
    Needs Kafka 2.4.

    :raises ClusterError: The cluster as a whole did not answer.
    """

    async def ask_one(node: int, group: str) -> Answer[int]:
        is_assigned = groups[group].type is GroupType.CONSUMER
        error_codes = await (_remove_assigned if is_assigned else _remove_classic)(
            client, node, group, groups[group].members
        )
        refused = [code for code in error_codes if code != codes.NONE and code not in _GONE]
        return Answer(next(iter(refused), codes.NONE), error_codes.count(codes.NONE))

    async def ask(node: int, asked: Sequence[str]) -> Mapping[str, Answer[int]]:
        return dict(zip(asked, await asyncio.gather(*(ask_one(node, group) for group in asked)), strict=True))

    return await ask_coordinators(client, groups, ask, "removing members of group", _remove_rights)


async def _remove_classic(client: Client, node: int, group: str, members: Sequence[GroupMember]) -> list[int]:
    """Remove members of a classic group, whose members assign. Return the error codes."""
    member_class: Any = LeaveGroupRequest.MemberIdentity
    # Identify a static member by its instance id: its member id changes with a restart.
    found = [
        member_class(
            member_id="" if each.instance_id is not None else each.member_id,
            group_instance_id=each.instance_id,
            reason=_REASON,
        )
        for each in members
    ]
    answer = await client.broker(node, LeaveGroupRequest(group_id=group, members=found, min_version=_SEVERAL_FROM))
    return [answer.error_code] if answer.error_code else [each.error_code for each in answer.members]


async def _remove_assigned(client: Client, node: int, group: str, members: Sequence[GroupMember]) -> list[int]:
    """Remove members of a group that brokers assign, by their member ids, which are stable. Return the error codes."""
    asked = (
        client.broker(
            node,
            ConsumerGroupHeartbeatRequest(group_id=group, member_id=each.member_id, member_epoch=_LEAVING),
        )
        for each in members
    )
    return [each.error_code for each in await asyncio.gather(*asked)]


def _remove_rights(group: str) -> tuple[Right, Right]:
    return on_group("READ", group), on_topic("DESCRIBE")
