"""Commits for groups: what a coordinator's answer says of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from isthmus.errors import NotAuthorized
from isthmus.groups.transaction import Accepted, commit_outside
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import TargetTopic

ORDERS, SALES = TargetTopic("orders"), TargetTopic("sales")
POSITIONS = {
    (ORDERS, 0): Committed(5),
    (ORDERS, 1): Committed(6, metadata="long"),
    (SALES, 0): Committed(7, metadata="copy-flags=01;long"),
}


class Coordinating(Client):
    """A cluster whose one broker coordinates every group, and answers one commit after the other with these codes."""

    def __init__(self, told: list[list[int]]) -> None:
        super().__init__(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",)))
        self._told = told
        self.asked: list[dict[tuple[str, int], str]] = []

    async def any(self, request: Any, **_: Any) -> Any:
        found = [
            SimpleNamespace(key=key, node_id=1, error_code=codes.NONE, error_message=None)
            for key in request.coordinator_keys
        ]
        return SimpleNamespace(coordinators=found)

    async def broker(self, node_id: int, request: Any, **_: Any) -> Any:
        told = iter(self._told.pop(0))
        topics = [
            SimpleNamespace(
                name=topic.name,
                partitions=[
                    SimpleNamespace(partition_index=each.partition_index, error_code=next(told))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self.asked.append(
            {
                (topic.name, each.partition_index): each.committed_metadata
                for topic in request.topics
                for each in topic.partitions
            }
        )
        return SimpleNamespace(topics=topics)


def committed(*told: list[int]) -> tuple[Outcomes[str, Accepted], list[dict[tuple[str, int], str]]]:
    """What became of a group whose commits are answered so, and what was asked to be written beside its positions."""

    async def scenario() -> tuple[Outcomes[str, Accepted], list[dict[tuple[str, int], str]]]:
        async with Coordinating(list(told)) as client:
            return await commit_outside(client, {"g": POSITIONS}), client.asked

    return asyncio.run(scenario())


def test_what_is_refused_of_one_partition_keeps_no_other_one() -> None:
    """A coordinator answers for each position by itself. What it says of the group as a whole, or of all its positions,
    is an error of the group.
    """
    refused, away = codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED
    found, _ = committed([0, 0, 0])
    assert found == Outcomes({"g": Accepted()})
    for place, key in enumerate(POSITIONS):
        told = [refused if each == place else 0 for each in range(3)]
        found, _ = committed(told)
        assert found.values["g"].refused.keys() == {key}
        assert isinstance(found.values["g"].refused[key], NotAuthorized)
    for whole in ([refused] * 3, [0, away, 0], [refused, away, 0]):
        found, _ = committed(whole)
        assert found.values.keys() == set()
        assert isinstance(found.errors["g"], NotAuthorized)


def test_what_is_too_long_beside_a_position_is_left_out() -> None:
    """The position is committed without it, the flags of a tree stay, and it is told which they are."""
    too_long = codes.OFFSET_METADATA_TOO_LARGE
    found, asked = committed([0, too_long, too_long], [0, 0])
    assert found == Outcomes({"g": Accepted(bare=frozenset({(ORDERS, 1), (SALES, 0)}))})
    assert asked[1] == {("orders", 1): "", ("sales", 0): "copy-flags=01;"}
    found, _ = committed([too_long, 0, 0], [too_long])
    assert found.values["g"].bare == frozenset()
    assert found.values["g"].refused.keys() == {("orders", 0)}
