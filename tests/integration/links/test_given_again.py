"""Verbs that are given again, or for what was detached before: whatever was seen then may not be so any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ClusterError, GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.memory.links import recollect
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import TargetTopic
from testing.groups import consumers
from testing.groups.carrying import records
from testing.links.promoting import VERBS, are_reserved, created, ends_at
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import cut
from testing.runs.declaring import name as name
from testing.runs.recovering import Interrupted
from testing.runs.running import patient, running
from testing.verbs import Promoter

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("verb", ["promote", "reverse"])
def test_nothing_is_done_while_nobody_knows_what_is_reserved(both: Configuration, name: str, verb: str) -> None:
    """A verb that was interrupted is not through because its target is away, or not in the file of whoever gives it
    again.
    """
    call = VERBS[verb]
    both = replace(both, timings=patient(calm_s=0.1))
    links, each = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-")
    links.create(name, source="east", target="west", maps=[each])
    promoter = Promoter(configuration=both, name=name, quiet_s=0.1)
    with pytest.raises(Interrupted):
        asyncio.run(call(replace(promoter, on_step=ends_at("releasing"))))
    for seen in (cut(both, "west"), replace(both, clusters=(both.cluster("east"),))):
        with pytest.raises(ClusterError, match="west") as told:
            asyncio.run(call(replace(promoter, configuration=seen)))
        assert told.value.hint
    assert are_reserved(both, each) == [True]
    assert asyncio.run(call(promoter)).is_done
    assert are_reserved(both, each) == [False]
    if verb == "reverse":
        links.delete(f"{name}-back")


def test_what_was_detached_before_is_proven_too(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """A promotion, tried or meant, misses what came to the source since and tells both ways on, until all is there."""
    both = replace(both, timings=patient(calm_s=0.1))
    here, there = (east, f"{name}.a-1"), (west, f"{name}.x-1")
    for cluster, topic in (here, there):
        topics.create(cluster, topic)
        topics.produce(cluster, topic, records(20))
    links, each = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-")
    groups = NamespaceMap.parse(f"{name}.", "group")
    links.create(name, source="east", target="west", maps=[each, groups])
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=0.1)
    asyncio.run(promoter().detach())
    topics.produce(*here, records(3))
    for is_dry in (True, False):
        with pytest.raises(GateNotMet, match=f"was detached, and lacks what its source has in {name}.x-1-0") as told:
            asyncio.run(promoter(maps=(each, groups)).promote(dry_run=is_dry))
        assert f"isthmus link reattach {name} --map {each} --group-map {groups}" in told.value.hint
    topics.produce(*there, records(3))
    assert asyncio.run(promoter(maps=(each, groups)).promote()).is_done
    assert are_reserved(both, each, groups) == [False, False]


def test_groups_are_carried_until_all_is_released(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """A position that is committed at the source while the lanes end is carried, and so is one that comes between two
    calls of a promotion. What was a copy is forgotten last, and by the next call where that was interrupted.
    """
    both = replace(both, timings=patient(calm_s=0.1))
    only, each = created(both, east, name)

    async def copied() -> None:
        async with running(only, spark, until_caught_up=True) as run:
            await run.task

    def commit(offset: int) -> None:
        consumers.commit(east, {f"{name}.app": {(f"{name}.a-1", 0): offset}})

    def heard(what: str) -> None:
        if what.startswith("waiting for the lanes"):
            commit(9)
        ends_at("releasing")(what)

    asyncio.run(copied())
    promoter, mirror = Promoter(configuration=both, name=name, quiet_s=0.1), TargetTopic(f"{name}.x-1")
    with pytest.raises(Interrupted):
        asyncio.run(replace(promoter, on_step=heard).promote())
    consumers.await_position(west, f"{name}.app", (mirror, 0), 9)
    commit(11)
    with pytest.raises(Interrupted):
        asyncio.run(replace(promoter, on_step=ends_at("forgetting")).promote())
    consumers.await_position(west, f"{name}.app", (mirror, 0), 11)
    assert are_reserved(both, each) == [False]
    assert asyncio.run(copies(both, name)) == [mirror]
    assert asyncio.run(promoter.promote(dry_run=True)).is_done
    assert asyncio.run(copies(both, name)) == [mirror]
    assert asyncio.run(promoter.promote()).is_done
    assert asyncio.run(copies(both, name)) == []


async def copies(both: Configuration, name: str) -> list[TargetTopic]:
    """The topics that the ledger knows as copies of a link."""
    async with Client(both.cluster("west")) as client:
        return list((await recollect(name, client)).topics)
