"""Which offsets of a topic came from where, through detachments and changes of sides, on real clusters."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import GateNotMet
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import LeaseDocument, ProgressDocument, TopicDocument
from isthmus.local import LocalCluster
from isthmus.local.host import whereabouts
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.run.following import Following
from testing.groups.carrying import records
from testing.links.controllers import controller
from testing.links.promoting import created, written
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.declaring import written as remember
from testing.runs.running import ends, patient, running
from testing.values.audited import LANE
from testing.verbs import Promoter

pytestmark = pytest.mark.integration

ALL = -1
OPEN = -1


def run(both: Configuration, spark: SparkSession, link: str) -> None:
    """Have a declared link copy all that there is."""
    assert open_fabric(both, spark=spark, declared=True).run(until="caught-up", link=link).exit_code == 0


def told(both: Configuration, cluster: str, topic: str) -> list[tuple[int, int, int, str, str]]:
    """What provenance says of a topic of one partition on a cluster: partition, range, link and verb."""
    found = Fabric(both).provenance(topic)
    assert not found.away.keys() & {cluster}
    return [
        (each.partition, each.offset_begin, each.offset_end, each.link, each.verb)
        for each in found.origins
        if each.cluster == cluster
    ]


def test_what_follows_again_is_told_apart(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """Promoted, attached again and detached while it runs: two ranges that meet, and none is open while nothing
    follows.
    """
    topic = f"{name}.x-1"
    only, _ = created(both, east, name)
    quickly = replace(both, timings=patient(calm_s=1.0))
    first = (0, 0, 20, name, "promote")

    async def tells() -> list[tuple[int, int, int, str, str]]:
        return await asyncio.to_thread(told, both, "west", topic)

    async def is_at(end: int) -> bool:
        return await ends(west, topic) == [end]

    async def scenario() -> None:
        following, timings = Following(written=only.written), patient(follow_s=0.2)
        async with running(only, spark, following=following, timings=timings) as run:
            await run.until(lambda: is_at(20))
            assert await tells() == [(ALL, 0, OPEN, name, "follows")]
            await Promoter(configuration=quickly, name=name, quiet_s=0.3).promote()
            assert await tells() == [first]
            await asyncio.to_thread(Fabric(both).declarations.reattach, name)
            await asyncio.to_thread(topics.produce, east, f"{name}.a-1", records(10))
            await run.until(lambda: is_at(30))
            assert await tells() == [first, (0, 20, OPEN, name, "follows")]
            await Promoter(configuration=quickly, name=name).detach()
            assert await tells() == [first, (0, 20, 30, name, "detach")]

    asyncio.run(scenario())


def test_what_a_cluster_wrote_itself_is_told_apart(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """The sides change twice, and each cluster writes while it leads: what it wrote is told as nobody's copy."""
    both = replace(both, timings=patient(calm_s=0.2))
    back, again = f"{name}-back", f"{name}-again"
    here, there = f"{name}.a-1", f"{name}.x-1"
    created(both, east, name)
    run(both, spark, name)
    asyncio.run(Promoter(configuration=both, name=name, quiet_s=0.3).reverse(back))
    assert written(west, there) == 20
    run(both, spark, back)
    asyncio.run(Promoter(configuration=both, name=back, quiet_s=0.3).reverse(again))
    assert written(east, here) == 21
    run(both, spark, again)
    try:
        assert told(both, "west", there) == [(0, 0, 20, name, "promote"), (0, 21, OPEN, again, "follows")]
        assert told(both, "east", here) == [(0, 20, 21, back, "promote")]
        asyncio.run(Promoter(configuration=both, name=again, quiet_s=0.3).promote())
        assert told(both, "west", there) == [(0, 0, 20, name, "promote"), (0, 21, 22, again, "promote")]
        assert asyncio.run(ends(west, there)) == [22]
    finally:
        Fabric(both).declarations.delete(again)


def test_a_link_that_is_deleted_leaves_as_one_that_is_detached(
    both: Configuration, west: LocalCluster, name: str
) -> None:
    """While a task may still write there nobody is let in; then it is told where everything came from, and whoever
    asks at once may be let in. What was let go of before is told as it was then.
    """
    fabric, topic, former = Fabric(both), TargetTopic(f"{name}.x-1"), TargetTopic(f"{name}.z-1")
    pairs = [NamespaceMap.parse(f"{name}.{one}-:{name}.{other}-") for one, other in (("a", "x"), ("c", "z"))]
    for each in (topic, former):
        topics.create(west, each)
        topics.produce(west, each, records(20))
    fabric.declarations.create(name, source="east", target="west", maps=pairs, validate=False)
    known = [
        TopicDocument(
            link=name,
            source_topic=SourceTopic(each),
            source_topic_id=NO_TOPIC_ID,
            target_topic=each,
            target_topic_id=NO_TOPIC_ID,
            state="ACTIVE",
        )
        for each in (topic, former)
    ]
    lane = replace(LANE, source_topic=SourceTopic(topic), target_topic=topic)
    lease = LeaseDocument(link=name, slot=0, controller=1, generation=1, revision=1, lanes=(lane,))
    ran = ProgressDocument(
        link=name,
        slot=0,
        controller=1,
        generation=1,
        is_full=True,
        reports=tuple(
            LaneReport(key=LaneKey(each, 0), state=LaneState.ACTIVE, position=20) for each in (topic, former)
        ),
    )
    asyncio.run(remember(both.cluster("west"), *known, lease, ran, controller(name, whereabouts())))
    fabric.link(name).promoter([pairs[1]]).detach()
    topics.produce(west, former, records(5))
    namespaces, pair = fabric.cluster("west").namespaces, pairs[0]
    with pytest.raises(GateNotMet, match="its lanes have not ended"):
        fabric.link(name).promoter([pair], timeout_s=0.1).detach()
    with pytest.raises(GateNotMet, match=f"tasks of link {name} may still write to namespace"):
        namespaces.update(pair.target, reserved=False)
    with pytest.raises(GateNotMet, match="may still write"):
        namespaces.delete(pair.target)
    asyncio.run(remember(both.cluster("west"), replace(lease, ended_through=1)))
    fabric.declarations.delete(name)
    assert told(both, "west", topic) == [(0, 0, 20, name, "detach")]
    assert told(both, "west", former) == [(0, 0, 20, name, "detach")]
    assert not namespaces.update(pair.target, reserved=False).is_reserved
