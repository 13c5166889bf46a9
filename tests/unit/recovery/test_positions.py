"""Where consumer groups stand once their topic is filled anew."""

from __future__ import annotations

import asyncio

import pytest

from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.links.recovery import DivergedPartition, HeldPosition
from isthmus.model.naming import TargetTopic
from isthmus.recovery.positions import await_forgotten, foreseen

WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))


def test_no_group_stands_beyond_what_is_shared() -> None:
    """A position up to the last shared offset stays; one beyond it goes there, and is told; partitions do not mix.
    Where a map tells what a position is at the source, it goes there.
    """
    partitions = [
        DivergedPartition(partition=number, source_begin=0, source_end=90, target_begin=0, target_end=60, shared=shared)
        for number, shared in enumerate((50, 10))
    ]
    held = [
        HeldPosition("billing", 0, 50, "note"),
        HeldPosition("billing", 1, 11),
        HeldPosition("shipping", 0, 60),
    ]
    told_by_map = HeldPosition("returns", 1, 59, "", 33)
    held.append(told_by_map)
    told = [(each.group, each.partition, each.after, bool(each.reason)) for each in foreseen(held, partitions)]
    assert told == [
        ("billing", 0, 50, False),
        ("billing", 1, 10, True),
        ("shipping", 0, 50, True),
        ("returns", 1, 33, False),
    ]


def test_no_topic_is_created_while_a_coordinator_may_drop_positions_of_the_one_before() -> None:
    """It does not answer: the command ends, and says what to do."""

    async def scenario() -> None:
        async with Client(WEST) as target:
            await await_forgotten(target, TargetTopic("orders"), ["billing"], term_s=0.0)

    with pytest.raises(GateNotMet, match="billing") as told:
        asyncio.run(scenario())
    assert "give the command again" in told.value.hint
