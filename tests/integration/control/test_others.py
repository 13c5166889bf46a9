"""Links that other processes run keep what they write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from isthmus.control.fabric import Fabric
from isthmus.control.links.memory import recorded_topics
from isthmus.control.links.others import neighbouring_claims, selection
from isthmus.control.topics.plan import Action, TopicPlan
from isthmus.control.topics.recording import begun, changed_topics
from isthmus.errors import ConfigError
from isthmus.ledger import records
from isthmus.ledger.documents import ControllerDocument
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.whereabouts import Whereabouts
from isthmus.wire.client import Client
from tests.integration.control.running import configuration_of, ends, link_of, running
from tests.integration.groups.carrying import declare
from tests.integration.lane import topics
from tests.integration.lane.topics import SEPTEMBER, Given

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.mark.parametrize("ahead_s", [-60, 0, 60], ids=["behind", "right", "ahead"])
def test_a_neighbour_whose_clock_is_wrong(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A controller of another host is alive as long as it beats, whatever its clock says, and no longer."""
    name = topic("skewed")
    for cluster in (east, west):
        topics.create(cluster, name)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    real = time.time

    async def claimed(client: Client) -> list[str]:
        found = await neighbouring_claims([client], ["own"], selection([link]))
        return [claim.target_topic for claim in found if claim.link == name and not claim.is_resting]

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            ledger = LinkLedger(target, name, whereabouts=Whereabouts(host="afar", host_id="another", pid=1))
            await ledger.open()
            await declare(link, ledger, source, target)
            run = asyncio.create_task(ledger.run())
            try:
                assert await claimed(target) == [name]
            finally:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                ledger.close()
            # No farewell. A clock that is right tells the same some seconds later.
            if ahead_s:
                assert await claimed(target) == []

    with monkeypatch.context() as patch:
        patch.setattr(records, "time", SimpleNamespace(time=lambda: real() + ahead_s))
        asyncio.run(scenario())


def test_what_a_neighbour_only_wants_is_not_its_own(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A topic that was refused to it is nobody's: who wrote it may go on. What it writes it shares, if it says so."""
    names = [topic(stem) for stem in ("written", "shared", "refused")]
    for name in names:
        for cluster in (east, west):
            topics.create(cluster, name)
    link = link_of(east.cluster(), west.cluster(), *names, name=names[0])
    written, shared, refused = map(TargetTopic, names)

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            ledger = LinkLedger(target, link.name)
            await ledger.open()
            await declare(link, ledger, source, target)
            recorded = recorded_topics(link.name, ledger.documents)
            await ledger.write(begun(link.name, shared, replace(recorded[shared], is_mapped=True)))
            never = TopicPlan(
                topic=refused,
                source_topic=SourceTopic(refused),
                action=Action.REFUSE,
                reasons=(Problem("another link writes it", ""),),
                state=LaneState.REFUSED,
            )
            await ledger.write(*changed_topics(link.name, [never], {}, {}))
            run = asyncio.create_task(ledger.run())
            try:
                found = await neighbouring_claims([target], ["own"], selection([link]))
            finally:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                ledger.close()
        assert {claim.target_topic: claim.is_mapped for claim in found} == {written: False, shared: True}

    asyncio.run(scenario())


def test_topics_of_another_controllers_link_are_left_to_it(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """While it runs, no other link writes its topic or takes it back where it came from."""
    name = topic("taken")
    topics.create(east, name)
    topics.produce(east, name, [Given(b"k", b"v", [], SEPTEMBER)] * 10)
    there = configuration_of(link_of(east.cluster(), west.cluster(), name, name=f"{name}-there"))
    rival = configuration_of(link_of(east.cluster(), west.cluster(), name, name=f"{name}-rival"))
    back = configuration_of(link_of(west.cluster(), east.cluster(), name, name=f"{name}-back"))

    async def is_copied() -> bool:
        return await ends(west, name) == [10]

    async def scenario() -> None:
        async with running(there, spark) as run:
            await run.until(is_copied)
            for configuration, word in ((rival, "writes this target topic already"), (back, "circle")):
                plan = await asyncio.to_thread(Fabric(configuration).plan)
                (planned,) = plan.links[0].topics
                assert planned.action is Action.REFUSE
                assert word in planned.reasons[0].message
                assert f"{name}-there" in planned.reasons[0].message
        async with asyncio.timeout(30):
            # The controller says that it has ended; what it cannot say on a starved machine its silence does.
            while (await asyncio.to_thread(Fabric(rival).plan)).links[0].topics[0].action is not Action.COPY:
                await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_a_circle_over_three_clusters_is_found_by_their_ledgers(
    east: LocalCluster, west: LocalCluster, east3: LocalCluster, topic: TopicNamer
) -> None:
    """Two links of others that rest would bring mapped records back; once one is forgotten there is no circle."""
    name = topic("round")
    north = east3.cluster()
    for cluster in (east, west, east3):
        topics.create(cluster, name)
    first = link_of(east.cluster(), west.cluster(), name, name=f"{name}-first")
    second = link_of(west.cluster(), north, name, name=f"{name}-second")
    third = link_of(north, east.cluster(), name, name=f"{name}-third")
    third = replace(third, topics=replace(third.topics, offsets=OffsetPolicy.MAPPED))
    fabric = Fabric(replace(configuration_of(third), clusters=(east.cluster(), west.cluster(), north)))

    async def wrote(link: Link) -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            ledger = LinkLedger(target, link.name)
            await ledger.open()
            await declare(link, ledger, source, target)
            await ledger.write(Deletion(f"{ControllerDocument.KIND}/{link.name}"))
            ledger.close()

    for link in (first, second):
        asyncio.run(wrote(link))
    (planned,) = fabric.plan().links[0].topics
    assert planned.action is Action.REFUSE
    assert f"{first.name}, {second.name}" in planned.reasons[0].message
    assert fabric.forget_link(first.name, cluster=west.cluster().alias)
    assert fabric.plan().links[0].topics[0].action is Action.COPY
    with pytest.raises(ConfigError, match="knows no link"):
        fabric.forget_link(first.name, cluster=west.cluster().alias)
