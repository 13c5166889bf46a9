"""Groups listed, described and their positions read, of real consumers on real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import (
    CommittedOffsets,
    committed_offsets,
    describe_groups,
    list_groups,
    merge_listings,
)
from isthmus.local import LocalCluster
from isthmus.model.kafka.group import Committed, GroupState, GroupType
from testing.groups.consumers import commit, joined
from testing.records.topics import create

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
ODD: Final = 'Ünïcode/группа "空" \U0001f600\n\t*%'


def test_members_are_described_with_what_they_read(east: LocalCluster, topic: TopicNamer) -> None:
    """Both protocols' members show their partitions; the coordinator and the partition it comes from are told."""
    name = topic("read")
    create(east, name, partitions=3)
    classic, consumer = topic("classic"), topic("consumer")
    groups = {classic: GroupType.CLASSIC, consumer: GroupType.CONSUMER}

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            known = merge_listings(await list_groups(client))
            found = await describe_groups(client, groups)
            assert found.errors == {}
            for group, kind in groups.items():
                assert (known[group].type, known[group].protocol_type) == (kind, "consumer")
                described = found.values[group]
                assert (described.type, described.state) == (kind, GroupState.STABLE)
                assert [m.client_id for m in described.members] == ["reader"]
                assert described.members[0].assignment == tuple((name, n) for n in range(3))
                assert described.protocol != ""
                metadata = await client.metadata(["__consumer_offsets"])
                leaders = {p.partition: p.leader for p in metadata.topics["__consumer_offsets"].partitions}
                assert described.offsets_partition is not None
                assert leaders[described.offsets_partition] == described.coordinator

    with joined(east, classic, name, "classic"), joined(east, consumer, name, "consumer"):
        asyncio.run(scenario())


def test_groups_of_any_name_and_none_at_all(east: LocalCluster, topic: TopicNamer) -> None:
    """A name of any UTF-8 is found again; a group that does not exist is dead and has no positions."""
    name, absent = topic("any"), topic("absent")
    odd = f"{ODD}-{topic('odd')}"
    create(east, name, partitions=2)
    commit(east, {odd: {(name, 0): 7, (name, 1): 0}})

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            assert merge_listings(await list_groups(client))[odd].state is GroupState.EMPTY
            found = await describe_groups(client, [odd, absent])
            assert found.values[odd].state is GroupState.EMPTY
            assert found.values[absent].state is GroupState.DEAD
            positions: CommittedOffsets[str] = await committed_offsets(client, [odd, absent])
            assert positions.errors == {}
            assert positions.values[odd] == {(name, 0): Committed(7), (name, 1): Committed(0)}
            assert positions.values[absent] == {}

    asyncio.run(scenario())


def test_two_hundred_groups_are_read_in_one_pass(
    east: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 groups with 50 partitions each are listed, described and read by a few requests, not by one for each."""
    name = topic("wide")
    create(east, name, partitions=50)
    groups = [topic("many") for _ in range(200)]
    wide = {group: {(name, p): number * 1000 + p for p in range(50)} for number, group in enumerate(groups)}
    commit(east, wide)
    requests: list[Any] = []

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            broker = client.broker

            async def counted(node: int, request: Any, **options: Any) -> Any:
                requests.append(request)
                return await broker(node, request, **options)

            monkeypatch.setattr(client, "broker", counted)
            known = merge_listings(await list_groups(client))
            described = await describe_groups(client, groups)
            positions: CommittedOffsets[str] = await committed_offsets(client, groups)
            assert known.keys() >= set(groups)
            assert described.errors == positions.errors == {}
            for group, offsets in wide.items():
                assert positions.values[group] == {key: Committed(offset) for key, offset in offsets.items()}

    asyncio.run(scenario())
    assert 0 < len(requests) <= 20
