"""A program with an event loop asks many things of the same clusters, which are asked no more than needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from isthmus import AsyncFabric
from isthmus.kafka.client import Client
from isthmus.ledger.view import LedgerView
from isthmus.local import LocalCluster
from isthmus.memory import links as memory
from isthmus.memory.filtering import Filters
from testing.records import topics
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration


def test_each_ledger_is_followed_once(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of however many links, at once or one after the other: one follower of each cluster's ledger,
    and a command that answers from what it knows sees what others have written meanwhile."""
    names = [topic("pooled") for _ in range(3)]
    for name in names:
        topics.create(east, name)
    there = [link_of(east.cluster(), west.cluster(), name, name=name) for name in names]
    back = link_of(west.cluster(), east.cluster(), "absent", name=topic("back"))
    followers: Counter[str] = Counter()

    def follow(client: Client) -> LedgerView:
        followers[client.cluster.alias] += 1
        return LedgerView(client)

    monkeypatch.setattr(memory, "LedgerView", follow)

    async def scenario() -> None:
        async with await AsyncFabric.open(configuration_of(*there, back)) as fabric:
            plan, status, _ = await asyncio.gather(fabric.plan(), fabric.status(), fabric.filters(names[0]))
            assert [[each.topic for each in link.topics] for link in plan.links] == [
                [each] for each in (*names, "absent")
            ]
            assert [link.link for link in status] == [*names, back.name]
            async with AsyncFabric(fabric.configuration) as elsewhere:
                await elsewhere.filter(names[0], Filters(topics_include=(names[1],)))
            assert (await fabric.filters(names[0])).topics_include == (names[1],)
            again = await fabric.plan(link=names[0])
            assert [each.topic for link in again.links for each in link.topics] == [names[1]]
        # One of each cluster, and that of the program that wrote the filter, for the target.
        assert followers == {"east": 1, "west": 2}

    asyncio.run(scenario())
