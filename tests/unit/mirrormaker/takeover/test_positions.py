"""What connectors of MirrorMaker 2 have left as their positions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import OffsetRange
from isthmus.mirrormaker.predecessor import Predecessor, Progress
from isthmus.mirrormaker.takeover.positions import KeptPositions, PositionsTopic
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic


def test_of_a_connector_that_was_renamed_both_positions_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest is where a first take-over looks from, the highest shows whether anything was copied since."""

    async def written(_: PositionsTopic, span: OffsetRange) -> AsyncGenerator[Progress, None]:
        for connector, alias, number, offset in (
            ("former", "east", 0, 30),
            ("renamed", "east", 0, 10),
            ("renamed", "east", 0, 50),
            ("former", "east", 1, 7),
            ("renamed", "east", 1, None),
            ("former", "north", 0, 99),
        ):
            yield Progress(connector, alias, (SourceTopic("orders"), number), offset)

    monkeypatch.setattr(PositionsTopic, "_progress", written)
    cluster = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))

    async def read() -> KeptPositions:
        async with Client(cluster) as client:
            topic = PositionsTopic(client, Predecessor(source_alias="east", offsets_topic="mm2-offsets"))
            return await topic.read({(TargetTopic("mm2-offsets"), 0): LogRange(0, 6, 6)})

    left = asyncio.run(read())
    assert left.committed == {("orders", 0): 30, ("orders", 1): 7}
    assert left.furthest == {("orders", 0): 50, ("orders", 1): 7}
    assert left.others == {"north"}
