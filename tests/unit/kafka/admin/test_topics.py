"""Topics that a cluster is known to have no more."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.kafka import codes
from isthmus.kafka.admin.topics import known_deleted
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID, Broker, Metadata, TopicMetadata
from isthmus.model.cluster import Cluster

ID = uuid.UUID(int=7)


class Told(Client):
    """Two brokers, with what each says of the topic's name and of its id."""

    def __init__(self, names: Mapping[int, int], ids: Mapping[int, int]) -> None:
        super().__init__(Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)))
        self._names, self._ids = names, ids

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        """The brokers, and what the one that is asked says of the name."""
        brokers = {node: Broker(node, "127.0.0.1", 1, None) for node in self._names}
        said = self._names[node_id] if node_id is not None else codes.NONE
        found = {name: TopicMetadata(name, NO_TOPIC_ID, (), said, is_internal=False) for name in topics or ()}
        return Metadata("E", 1, brokers, found)

    async def broker(self, node_id: int, request: Any, **_: Any) -> Any:
        """What that one says of ids."""
        topics = [SimpleNamespace(topic_id=each.topic_id, error_code=self._ids[node_id]) for each in request.topics]
        return SimpleNamespace(cluster_id="E", topics=topics)

    def recognize(self, cluster_id: str | None) -> None:
        """It is that cluster."""


@pytest.mark.parametrize(
    ("names", "ids", "topic_id", "is_deleted"),
    [
        ((codes.UNKNOWN_TOPIC_OR_PARTITION,) * 2, (codes.UNKNOWN_TOPIC_ID,) * 2, ID, True),
        # One of them has it still, or has not heard of its deletion.
        ((codes.UNKNOWN_TOPIC_OR_PARTITION, codes.NONE), (codes.UNKNOWN_TOPIC_ID,) * 2, ID, False),
        # Who may not see it is told that there is none of that name.
        ((codes.UNKNOWN_TOPIC_OR_PARTITION,) * 2, (codes.NONE,) * 2, ID, False),
        ((codes.UNKNOWN_TOPIC_OR_PARTITION,) * 2, (codes.UNKNOWN_TOPIC_ID, codes.NONE), ID, False),
        # Whatever else is said is no word on the id.
        ((codes.UNKNOWN_TOPIC_OR_PARTITION,) * 2, (codes.UNKNOWN_TOPIC_ID, 29), ID, False),
        ((codes.UNKNOWN_TOPIC_OR_PARTITION,) * 2, (codes.UNKNOWN_TOPIC_ID,) * 2, NO_TOPIC_ID, False),
    ],
)
def test_a_topic_is_deleted_once_no_broker_knows_its_name_nor_its_id(
    names: tuple[int, int], ids: tuple[int, int], topic_id: uuid.UUID, *, is_deleted: bool
) -> None:
    """Each of them says both; anything else proves nothing."""

    async def asked() -> frozenset[str]:
        async with Told(dict(enumerate(names)), dict(enumerate(ids))) as client:
            return await known_deleted(client, {"orders": topic_id})

    assert asyncio.run(asked()) == (frozenset({"orders"}) if is_deleted else frozenset())
