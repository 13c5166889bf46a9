"""A topic to which nobody writes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from typing import Any

import pytest

from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.metadata import Metadata, PartitionMetadata, TopicMetadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.selection import TopicSettings
from isthmus.recovery import quiet
from isthmus.recovery.quiet import QuietTopic

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))


class Told(Client):
    """A cluster that shows the topic with so many partitions."""

    count = 1

    async def metadata(self, *_: Any, **__: Any) -> Metadata:
        """The answer to any question."""
        found = tuple(PartitionMetadata(number, 1, 0, (1,), (1,), 0) for number in range(self.count))
        return Metadata("W", 1, {}, {"t": TopicMetadata("t", uuid.UUID(int=1), found, 0, is_internal=False)})


@pytest.mark.parametrize("count", [1, 2])
def test_partitions_that_came_meanwhile_may_hold_what_nobody_looked_at(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has added some: the logs that were looked at still end where they did."""

    async def ranges(*_: Any, **__: Any) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes({("t", 0): LogRange(0, 5, 5)})

    monkeypatch.setattr(quiet, "log_ranges", ranges)

    async def scenario() -> None:
        async with Told(WEST) as target:
            target.count = count
            await still(target).require_unmoved({0: LogRange(0, 5, 5)})

    if count == 1:
        asyncio.run(scenario())
    else:
        with pytest.raises(GateNotMet, match="has 2 partitions"):
            asyncio.run(scenario())


@pytest.mark.parametrize("ends", [(6, 4), (6, 5), (5, 4)])
def test_each_log_has_to_end_where_it_did(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has grown is not made up for by another one that was cut off, which shows that something went on too."""

    async def ranges(*_: Any, **__: Any) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes({("t", number): LogRange(0, end, end) for number, end in enumerate(ends)})

    async def build_written_to(_: Client, moved: Collection[PartitionKey]) -> GateNotMet:
        return GateNotMet(f"a producer writes to {len(moved)}", hint="")

    monkeypatch.setattr(quiet, "log_ranges", ranges)
    monkeypatch.setattr(quiet, "build_written_to", build_written_to)

    async def scenario() -> None:
        async with Told(WEST) as target:
            target.count = 2
            await still(target).require_unmoved({0: LogRange(0, 5, 5), 1: LogRange(0, 5, 5)})

    with pytest.raises(GateNotMet, match=f"a producer writes to {sum(end != 5 for end in ends)}"):
        asyncio.run(scenario())


def still(target: Client) -> QuietTopic:
    """Nobody writes to it, as far as is known."""
    return QuietTopic(
        link=Link(name="l", source=EAST, target=WEST, topics=TopicSettings()),
        target=target,
        topic=TargetTopic("t"),
        quiet_s=0.0,
        timeout_s=1.0,
        on_step=lambda _: None,
    )
