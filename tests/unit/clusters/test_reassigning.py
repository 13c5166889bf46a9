"""What became of partitions that were to move, by what a broker says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from isthmus.clusters.reassigning import AsyncReassigning
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, PartitionMetadata, TopicMetadata
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster

NOWHERE = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))


class Late(Client):
    """A broker that hears of the end of a move at the second question."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self._told = [(1, 2, 3), (1, 3)]

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        replicas = self._told.pop(0)
        partition = PartitionMetadata(0, 1, 0, replicas, replicas, codes.NONE)
        return Metadata(None, 1, {}, {"t": TopicMetadata("t", NO_TOPIC_ID, (partition,), codes.NONE, False)})


def test_a_broker_that_has_not_heard_of_the_end_of_a_move_is_asked_again() -> None:
    """It ended, as the controller said: nobody has given it up."""

    async def scenario() -> dict[tuple[str, int], tuple[int, ...]]:
        async with ClientSession() as session:
            reassigning = AsyncReassigning(NOWHERE, session)
            async with Late() as client:
                reassigning._client = client
                return await reassigning._replicas({("t", 0): (1, 3)})

    assert asyncio.run(scenario()) == {("t", 0): (1, 3)}
