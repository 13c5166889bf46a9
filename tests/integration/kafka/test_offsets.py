"""Where logs begin and end, as real brokers tell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.local import LocalCluster
from testing.records import topics
from testing.repeating import repeating

pytestmark = pytest.mark.integration


def test_a_log_that_grows_has_no_open_transaction(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """What is appended while its ends are asked for is not taken for a part of a transaction."""
    name = topic("growing")
    topics.create(west, name)
    records = topics.some(20, random.Random(1))

    async def ends() -> list[tuple[int, int]]:
        async with Client(west.cluster()) as client:
            found = [(await log_ranges(client, [(name, 0)])).values[name, 0] for _ in range(300)]
        return [(log.stable_end, log.end) for log in found]

    with repeating(lambda: topics.produce(west, name, records)):
        found = asyncio.run(ends())
    assert [each for each in found if each[0] != each[1]] == []
    assert found[0] != found[-1]
