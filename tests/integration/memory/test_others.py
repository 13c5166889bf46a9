"""Links that other processes run keep what they write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger import records
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion
from isthmus.local import LocalCluster
from isthmus.memory.hearing import is_run
from isthmus.memory.links import recorded_topics
from isthmus.memory.others import neighbouring_claims, selection
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import MirrorMakerNaming, SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.model.state import LinkState
from isthmus.topics.plan import Action, TopicPlan
from isthmus.topics.recording import build_document, changed_topics
from testing.groups.carrying import declare
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import configuration_of, ends, link_of, running

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.mark.parametrize("ahead_s", [-3600, 0, 3600], ids=["behind", "right", "ahead"])
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
        told = await neighbouring_claims([client], [], selection([link]))
        return [one.target_topic for each in told for one in each.claims if one.link == name and not one.is_resting]

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            ledger = LinkLedger(target, name, whereabouts=Whereabouts(host="afar", host_id="another", pid=1))
            await ledger.open()
            await declare(link, ledger, source, target)
            run = asyncio.create_task(ledger.run())
            try:
                assert await claimed(target) == [name]
                assert await is_run(name, target)
            finally:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                ledger.close()
            # No farewell. A clock that is right tells the same some seconds later.
            if ahead_s:
                assert await claimed(target) == []
                assert not await is_run(name, target)

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
            await ledger.write(build_document(link.name, shared, replace(recorded[shared], is_mapped=True)))
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
                told = await neighbouring_claims([target], [], selection([link]))
            finally:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                ledger.close()
        found = {claim.target_topic: claim.is_mapped for each in told for claim in each.claims}
        assert found == {written: False, shared: True}

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
        async with asyncio.timeout(TERM_S):
            # The controller says that it has ended; what it cannot say on a starved machine its silence does.
            while (await asyncio.to_thread(Fabric(rival).plan)).links[0].topics[0].action is not Action.COPY:
                await asyncio.sleep(0.1)

    asyncio.run(scenario())


@asynccontextmanager
async def controlled(link: Link) -> AsyncIterator[None]:
    """A controller that has a link's topics and beats until the block is left, and says farewell then."""
    async with Client(link.source) as source, Client(link.target) as target:
        ledger = LinkLedger(target, link.name)
        await ledger.open()
        run = asyncio.create_task(ledger.run())
        try:
            await declare(link, ledger, source, target)
            yield
            await ledger.write(Deletion(f"{ControllerDocument.KIND}/{link.name}"))
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            ledger.close()


def test_a_circle_over_three_clusters_is_found_by_their_ledgers(
    east: LocalCluster, west: LocalCluster, east3: LocalCluster, topic: TopicNamer
) -> None:
    """While the controllers of two links run, no third one closes the circle. While they rest, a mirror of same offsets
    may be turned round, but mapped records would come back; once one link is forgotten there is no circle.
    """
    name = topic("round")
    north = east3.cluster()
    for cluster in (east, west, east3):
        topics.create(cluster, name)
    first = link_of(east.cluster(), west.cluster(), name, name=f"{name}-first")
    second = link_of(west.cluster(), north, name, name=f"{name}-second")
    same = link_of(north, east.cluster(), name, name=f"{name}-third")
    mapped = replace(same, topics=replace(same.topics, offsets=OffsetPolicy.MAPPED))
    there = (east.cluster(), west.cluster(), north)
    fabrics = [Fabric(replace(configuration_of(link), clusters=there)) for link in (same, mapped)]

    async def planned() -> list[TopicPlan]:
        plans = [await asyncio.to_thread(fabric.plan) for fabric in fabrics]
        return [plan.links[0].topics[0] for plan in plans]

    async def scenario() -> None:
        async with controlled(first), controlled(second):
            for plan in await planned():
                assert plan.action is Action.REFUSE
                assert f"{first.name}, {second.name}" in plan.reasons[0].message
                assert "is not run" not in plan.reasons[0].hint
        turned_round, refused = await planned()
        assert turned_round.action is Action.COPY
        assert refused.action is Action.REFUSE
        assert f"isthmus forget {first.name}" in refused.reasons[0].hint

    asyncio.run(scenario())
    fabric = fabrics[1]
    assert fabric.forget_link(first.name, cluster=west.cluster().alias)
    assert fabric.plan().links[0].topics[0].action is Action.COPY
    with pytest.raises(ConfigError, match="knows no link"):
        fabric.forget_link(first.name, cluster=west.cluster().alias)


@pytest.mark.parametrize("names", ["kept", "mm2"])
def test_a_new_topic_does_not_go_round_between_two_controllers(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, names: str
) -> None:
    """Each runs one direction and neither knows the other's file. A topic that comes while they run goes there, and not
    back, whether names are kept or tell where it came from by aliases that differ.
    """
    stem = topic("later")
    new = f"{stem}.orders"
    there = link_of(east.cluster(), west.cluster(), f"/.*{stem}.*/", name=f"{stem}-there")
    back = link_of(west.cluster(), east.cluster(), f"/.*{stem}.*/", name=f"{stem}-back")
    copy, again = new, new
    if names == "mm2":
        one, other = (MirrorMakerNaming(source_alias=a, target_alias=b) for a, b in (("x", "y"), ("b", "a")))
        there = replace(there, topics=replace(there.topics, naming=one))
        back = replace(back, topics=replace(back.topics, naming=other))
        copy, again = f"x.{new}", f"b.x.{new}"
    there, back = (
        replace(link, topics=replace(link.topics, offsets=OffsetPolicy.AUTO), topics_interval_s=1.0)
        for link in (there, back)
    )

    async def scenario() -> None:
        async with running(configuration_of(there), spark) as first, running(configuration_of(back), spark) as second:
            await first.until(lambda: bool(first.links) and first.links[0].state is LinkState.ACTIVE)
            await second.until(lambda: bool(second.links) and second.links[0].state is LinkState.ACTIVE)
            await asyncio.to_thread(topics.create, east, new)
            await asyncio.to_thread(topics.produce, east, new, [Given(b"k", b"v", [], SEPTEMBER)] * 10)

            async def is_copied() -> bool:
                return await ends(west, copy) == [10]

            await first.until(is_copied)
            await second.until(lambda: second.state_of(again) is not None)
            standing = second.topic(again)
            assert standing is not None
            assert (standing.state, standing.records) == (LaneState.REFUSED, 0)
            await first.until(lambda: first.state_of(copy) is LaneState.ACTIVE)
        assert await ends(east, new) == [10]
        if names == "mm2":
            assert await ends(east, again) == [-1]

    asyncio.run(scenario())
