"""Our rights on groups, as their coordinators report them (KIP-430)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest

from isthmus.errors import NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import AllowedOperations, operations_of
from isthmus.kafka.client import Client
from isthmus.kafka.groups.coordinators import Answer, ask_coordinators
from isthmus.model.kafka.group import GroupState
from isthmus.model.kafka.rights import Right, on_group, on_topic


async def group_operations(client: Client, groups: Collection[str]) -> dict[str, AllowedOperations]:
    """Our rights on each group, none on one that we may not see. Groups that do not exist are left out.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not groups:
        return {}

    async def ask(node: int, asked: Sequence[str]) -> dict[str, Answer[AllowedOperations]]:
        request = DescribeGroupsRequest(groups=list(asked), include_authorized_operations=True)
        answer = await client.broker(node, request)
        return {group.group_id: _answer(group) for group in answer.groups}

    found = await ask_coordinators(client, groups, ask, "describing group", _rights)
    hidden = {group: AllowedOperations() for group, error in found.errors.items() if isinstance(error, NotAuthorized)}
    return {**found.values, **hidden}


def _answer(group: Any) -> Answer[AllowedOperations]:
    if group.error_code:
        return Answer(group.error_code, None, getattr(group, "error_message", None))
    if GroupState.of(group.group_state) is GroupState.DEAD:
        return Answer(codes.GROUP_ID_NOT_FOUND)
    return Answer(codes.NONE, operations_of(group.authorized_operations))


def _rights(group: str) -> tuple[Right, Right]:
    return on_group("DESCRIBE", group), on_topic("DESCRIBE")
