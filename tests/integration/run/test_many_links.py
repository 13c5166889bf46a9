"""More links than slots, and links that come, go and change while others run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.link import Link
from isthmus.model.naming import PrefixNaming
from isthmus.model.state import LinkState
from isthmus.run.following import Following
from testing.groups.carrying import records
from testing.links.controllers import descriptions, leases_of
from testing.records import oracle, topics
from testing.runs.processes import kill, python_workers
from testing.runs.running import configuration_of, ends, link_of, patient, running

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
TWO_SLOTS = SparkSettings(slots=2, lease_term_s=8.0)


def links_of(east: LocalCluster, west: LocalCluster, names: Sequence[str]) -> list[Link]:
    """A link for each of these topics, of the same name."""
    for name in names:
        topics.create(east, name, partitions=2)
        topics.produce(east, name, records(20))
    return [link_of(east.cluster(), west.cluster(), name, name=name) for name in names]


def together(links: Sequence[Link]) -> Configuration:
    """All links in one file, in two slots."""
    return replace(configuration_of(links[0]), links=tuple(links), spark=TWO_SLOTS)


def sharing(description: str | None) -> int:
    """How many links share the job of this description, which names three of their leases and counts the others."""
    words = description or ""
    more = re.search(r" and ([0-9,]+) more$", words)
    return words.count(" lease ") + (int(more[1].replace(",", "")) if more else 0)


def test_many_links_run_in_two_slots(east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """One task runs them all, whatever their number, and is succeeded as any other; each is caught up."""
    stem = topic("many")
    links = links_of(east, west, [f"{stem}.{number}" for number in range(16)])

    async def scenario() -> None:
        async with running(together(links), spark) as run:
            for link in links:
                await run.until(partial(is_at, west, link.name, 20))
            # Those that are asked for at nearly the same time share a job. The other tests have fewer links.
            await run.until(lambda: any(sharing(each) > len(links) / 2 for each in descriptions(spark)))
            for link in links:
                await run.until(partial(has_leased, west, link.name, 2))
            for link in links:
                await asyncio.to_thread(topics.produce, east, link.name, records(5))
            for link in links:
                await run.until(partial(is_at, west, link.name, 25))
            outcome = await run.end_well()
            # What is answered after a lease has ended is counted by nobody.
            assert (outcome.exit_code, 0 < outcome.records <= len(links) * 25) == (0, True)

    asyncio.run(scenario())
    for link in links:
        oracle.assert_same(east, west, link.name, partitions=2)


def test_links_that_share_a_task_outlive_its_death(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """The worker is killed with -9 while it copies for all of them: each goes on, and nothing is there twice."""
    stem = topic("killed")
    links = links_of(east, west, [f"{stem}.{number}" for number in range(4)])
    together_s = replace(together(links), spark=SparkSettings(slots=2, lease_term_s=60.0))

    async def scenario() -> None:
        async with running(together_s, spark) as run:
            for link in links:
                await run.until(partial(is_at, west, link.name, 20))
            for link in links:
                await asyncio.to_thread(topics.produce, east, link.name, records(5))
            kill(python_workers())
            for link in links:
                await asyncio.to_thread(topics.produce, east, link.name, records(5))
            for link in links:
                await run.until(partial(is_at, west, link.name, 30))
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    for link in links:
        oracle.assert_same(east, west, link.name, partitions=2)


def test_links_come_and_go_while_others_run(
    east: LocalCluster,
    west: LocalCluster,
    topic: Namer,
    spark: SparkSession,
) -> None:
    """One comes, one goes, one gets another naming: the one that stays keeps its lease."""
    stem = topic("supervised")
    stays, goes, comes = links_of(east, west, [f"{stem}.{word}" for word in ("stays", "goes", "comes")])
    roomy = SparkSettings(slots=2, lease_term_s=600.0)
    written = [replace(together([stays, goes]), spark=roomy)]

    async def scenario() -> None:
        following = Following(lambda: written[-1], is_constant=True)
        async with running(written[0], spark, following=following, timings=patient(follow_s=0.2)) as run:
            for link in (stays, goes):
                await run.until(partial(is_at, west, link.name, 20))
            before = await leases_of(west, stays.name)
            written.append(replace(written[0], links=(stays, comes)))
            await run.until(partial(is_at, west, comes.name, 20))
            await run.until(lambda: [link.link for link in run.links] == [stays.name, comes.name])
            renaming = PrefixNaming(source_prefix=stem, target_prefix=f"other-{stem}")
            renamed = replace(comes, topics=replace(comes.topics, naming=renaming))
            written.append(replace(written[0], links=(stays, renamed)))
            await run.until(partial(is_at, west, f"other-{comes.name}", 20))
            await asyncio.to_thread(topics.produce, east, goes.name, records(5))
            await asyncio.to_thread(topics.produce, east, stays.name, records(5))
            await run.until(partial(is_at, west, stays.name, 25))
            assert sum(await ends(west, goes.name, partitions=2)) == 20
            assert await leases_of(west, stays.name) == before, "leases began anew"
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())


def test_a_link_that_fails_stops_no_other_in_its_task(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """A source that is not there is waited for; the others are copied meanwhile, and told apart."""
    stem = topic("failing")
    one, other = links_of(east, west, [f"{stem}.one", f"{stem}.other"])
    away = replace(other, source=replace(other.source, bootstrap_servers=("127.0.0.1:1",)))

    async def scenario() -> None:
        async with running(together([one, away]), spark) as run:
            await run.until(partial(is_at, west, one.name, 20))
            await run.until(lambda: [link.state for link in run.links] == [LinkState.ACTIVE, LinkState.UNAVAILABLE])

    asyncio.run(scenario())


async def is_at(west: LocalCluster, name: str, records_there: int) -> bool:
    """Whether the topic has so many records at the target."""
    return sum(await ends(west, name, partitions=2)) == records_there


async def has_leased(west: LocalCluster, link: str, generation: int) -> bool:
    """Whether the link is at least at that lease."""
    return max((number for _, number in (await leases_of(west, link)).values()), default=0) >= generation


def test_a_process_may_run_the_links_into_one_cluster(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """One beside each cluster serves every pair; a cluster that nothing goes into is refused."""
    stem = topic("into")
    (there,) = links_of(east, west, [f"{stem}.there"])
    (back,) = links_of(west, east, [f"{stem}.back"])
    clusters = (east.cluster(), west.cluster(), replace(east.cluster(), alias="nowhere"))
    fabric = Fabric(replace(together([there, back]), clusters=clusters), spark=spark)
    assert [link.link for link in fabric.plan(clusters=["west"]).links] == [there.name]
    outcome = fabric.run(until="caught-up", clusters=["west"])
    assert (outcome.exit_code, [link.link for link in outcome.links]) == (0, [there.name])
    assert asyncio.run(ends(east, back.name, partitions=2)) == [-1, -1]
    with pytest.raises(ConfigError, match="no link goes into nowhere"):
        fabric.run(clusters=["nowhere"])
