"""Members that somebody else takes out of their groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import describe_groups
from isthmus.kafka.groups.membership import remove_members
from isthmus.local import LocalCluster
from isthmus.model.kafka.group import GroupDescription
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import create

pytestmark = pytest.mark.integration


async def described(cluster: LocalCluster, group: str) -> GroupDescription:
    """A group as it is now."""
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        return (await describe_groups(client, [group])).all()[group]


async def removed(cluster: LocalCluster, group: GroupDescription) -> Mapping[str, int]:
    """How many of its members were there still."""
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        return (await remove_members(client, {group.group: group})).all()


@pytest.mark.parametrize("static", [{}, {"group_instance_id": "one"}], ids=["dynamic", "static"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_is_at_work_joins_again(
    protocol: str, static: dict[str, Any], east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Members of both kinds of groups are taken out, once. Who is at work is in the group again soon."""
    name = topic("taken")
    create(east, name)
    with consumers.joined(east, name, name, protocol, **static) as member:
        before = asyncio.run(described(east, name))
        assert [each.instance_id for each in before.members] == [static.get("group_instance_id")]
        assert asyncio.run(removed(east, before)) == {name: 1}
        deadline = time.monotonic() + TERM_S
        while not asyncio.run(described(east, name)).members:
            member.poll(0.1)
            assert time.monotonic() < deadline


def test_a_static_member_that_was_started_again(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """It has another id by then, and is taken out by what it has kept."""
    name = topic("again")
    create(east, name)
    with consumers.joined(east, name, name, group_instance_id="one"):
        before = asyncio.run(described(east, name))
    with consumers.joined(east, name, name, group_instance_id="one"):
        assert asyncio.run(described(east, name)).members != before.members
        assert asyncio.run(removed(east, before)) == {name: 1}
