"""Commits for groups: what a coordinator's answer says of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from isthmus.control.groups.transaction import commit_outside
from isthmus.model.cluster import Cluster
from isthmus.model.group import Committed
from isthmus.wire import codes
from isthmus.wire.client import Client

POSITIONS = {("orders", 0): Committed(5), ("orders", 1): Committed(6), ("sales", 0): Committed(7)}


class Coordinating(Client):
    """A cluster whose one broker coordinates every group, and answers each commit with these codes, in order."""

    def __init__(self, told: list[int]) -> None:
        super().__init__(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",)))
        self._told = told

    async def any(self, request: Any, **_: Any) -> Any:
        found = [
            SimpleNamespace(key=key, node_id=1, error_code=codes.NONE, error_message=None)
            for key in request.coordinator_keys
        ]
        return SimpleNamespace(coordinators=found)

    async def broker(self, node_id: int, request: Any, **_: Any) -> Any:
        told = iter(self._told)
        topics = [
            SimpleNamespace(partitions=[SimpleNamespace(error_code=next(told)) for _ in topic.partitions])
            for topic in request.topics
        ]
        return SimpleNamespace(topics=topics)


def committed(*told: int) -> tuple[bool, bool]:
    """Whether a group's positions count as committed, and whether there is an error."""

    async def scenario() -> tuple[bool, bool]:
        async with Coordinating(list(told)) as client:
            outcome = await commit_outside(client, {"g": POSITIONS})
            return "g" in outcome.values, "g" in outcome.errors

    return asyncio.run(scenario())


def test_a_commit_counts_if_every_position_was_taken() -> None:
    """A coordinator answers for each position by itself: one that was refused is an error of the group."""
    refused = codes.TOPIC_AUTHORIZATION_FAILED
    assert committed(0, 0, 0) == (True, False)
    for told in ((refused, 0, 0), (0, refused, 0), (0, 0, refused)):
        assert committed(*told) == (False, True)
