"""What MirrorSourceTaskTest, MirrorSourceConnectorTest and others ask of topics (docs/mm2-conformance.md)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.local import LocalCluster
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern
from isthmus.model.state import LinkState
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.topics.preflight import LONG_MAX
from testing.patience import UNFENCED
from testing.records import topics
from testing.records.flows import (
    PARTITIONS,
    PER_PARTITION,
    Flow,
    contents,
    create,
    grow,
    numbered,
    produce,
    until_there,
)
from testing.records.topics import Given
from testing.runs.running import configuration_of, patient, running

pytestmark = pytest.mark.integration

DAY_MS: Final = 86_400_000


@pytest.mark.parametrize("offsets", [OffsetPolicy.SAME, OffsetPolicy.MAPPED])
def test_serde(flow: Flow, spark: SparkSession, chance: random.Random, offsets: OffsetPolicy) -> None:
    """Under another name every record keeps partition, key, value, headers and timestamp: also empty ones, and
    tombstones.
    """
    create(flow.source, flow.stem, cleanup_policy="compact")
    for partition in range(PARTITIONS):
        given = [*topics.some(50, chance), topics.Given(b"gone", None, [], topics.SEPTEMBER)]
        empty = topics.Given(b"", b"", [("", b"")], topics.SEPTEMBER)
        keyed = [record._replace(key=record.key or b"key") for record in [*given, empty]]
        topics.produce(flow.source.cluster, flow.stem, [*keyed, empty], partition=partition)
    configuration = configuration_of(flow.link(offsets=offsets))
    assert isthmus.open(configuration, spark=spark).run(until="caught-up").exit_code == 0
    found = contents(flow.target, flow.remote(flow.stem))
    assert found == contents(flow.source, flow.stem)
    assert all(
        None in {seen.value for seen in records} and b"" in {seen.value for seen in records} for records in found
    )


def refusals(cluster: LocalCluster, topic: str, given: list[Given]) -> list[str]:
    """Why brokers do not take records, each sent by itself."""
    found: list[str] = []
    writing = topics.producer(cluster)
    for record in given:
        writing.produce(
            topic,
            record.value,
            timestamp=record.timestamp,
            on_delivery=lambda error, _: found.append("" if error is None else error.name()),
        )
        topics.flush(writing)
    return found


def test_a_target_that_refuses_old_and_future_timestamps(
    east: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """Records of years ago and of years to come are copied with their times, at the same and at mapped offsets, where
    the target's brokers take neither by default.
    """
    limits = {f"log.message.timestamp.{side}.max.ms": "3600000" for side in ("before", "after")}
    stamps = [1_704_067_200_000, int(time.time() * 1000) + 1_000 * DAY_MS]
    given = [Given(b"k", b"%d" % n, [], stamps[n % 2] + n) for n in range(20)]
    with LocalCluster.start("strict", brokers=1, heap_mb=256, properties={**UNFENCED, **limits}) as strict:
        flow = Flow.between(east, strict, topic("stamped"))
        topics.create(strict, flow.stem)
        assert refusals(strict, flow.stem, given[:2]) == ["INVALID_TIMESTAMP"] * 2
        links = []
        for offsets in (OffsetPolicy.SAME, OffsetPolicy.MAPPED):
            name = f"{flow.stem}-{offsets}"
            create(flow.source, name, partitions=1, message_timestamp_after_max_ms=LONG_MAX)
            topics.produce(east, name, given)
            link = flow.link(offsets=offsets, include=(TopicPattern.parse(name),))
            links.append(replace(link, name=name))
        assert isthmus.open(configuration_of(*links), spark=spark).run(until="caught-up").exit_code == 0
        for link in links:
            found = contents(flow.target, flow.remote(link.name), partitions=1)
            assert found == contents(flow.source, link.name, partitions=1)
            assert [seen.timestamp[1] for seen in found[0]] == [record.timestamp for record in given]


def test_no_cycles(flow: Flow, spark: SparkSession) -> None:
    """A topic that came from the target at any hop does not go back there; one that came from elsewhere goes on."""
    elsewhere = f"elsewhere.{flow.stem}"
    for name in (f"{flow.target.alias}.{flow.stem}", f"elsewhere.{flow.target.alias}.{flow.stem}", elsewhere):
        create(flow.source, name, partitions=1)
        produce(flow.source, name, partitions=1)
    assert isthmus.open(configuration_of(flow.link()), spark=spark).run(until="caught-up").records == PER_PARTITION
    made = {name for name in topics.names(flow.target.cluster) if flow.stem in name}
    assert made == {flow.remote(elsewhere)}


def test_internal_topic(flow: Flow, spark: SparkSession) -> None:
    """With the excludes of MirrorMaker 2 neither its internal topics nor Kafka's are copied, whatever is included."""
    theirs = [f"mm2-offsets.{flow.stem}.internal", f"{flow.stem}.replica", f"__{flow.stem}"]
    for name in (*theirs, flow.stem):
        create(flow.source, name, partitions=1)
        produce(flow.source, name, partitions=1)
    exclude = tuple(TopicPattern.parse(text) for text in (r"/mm2.*\.internal/", r"/.*\.replica/"))
    configuration = configuration_of(flow.link(exclude=exclude))
    assert isthmus.open(configuration, spark=spark).run(until="caught-up").records == PER_PARTITION
    assert {name for name in topics.names(flow.target.cluster) if flow.stem in name} == {flow.remote(flow.stem)}


def test_refresh_topic_partitions(flow: Flow, spark: SparkSession) -> None:
    """A topic that the target refuses to create is asked for again and again, and copied once it can be; the partitions
    that its source gets later follow.
    """
    create(flow.source, flow.stem, partitions=1)
    produce(flow.source, flow.stem, partitions=1)
    # Kafka refuses a name that differs from another one by a dot for an underscore only.
    in_the_way = flow.remote(flow.stem).replace(".", "_")
    create(flow.target, in_the_way, partitions=1)
    link = flow.link()

    async def scenario() -> None:
        async with running(configuration_of(link), spark, timings=patient(refused_s=0.5)) as run:
            await run.until(lambda: bool(run.links) and any(t.problem is not None for t in run.links[0].topics))
            assert flow.remote(flow.stem) not in topics.names(flow.target.cluster)
            await asyncio.to_thread(topics.delete, flow.target.cluster, in_the_way)
            await until_there(run, flow.target, flow.remote(flow.stem), [PER_PARTITION])
            await asyncio.to_thread(grow, flow.source, flow.stem, 2)
            await asyncio.to_thread(topics.produce, flow.source.cluster, flow.stem, numbered(1), partition=1)
            await until_there(run, flow.target, flow.remote(flow.stem), [PER_PARTITION, 1])

    asyncio.run(scenario())


def test_refresh_topic_partitions_topic_on_target_first(flow: Flow, spark: SparkSession) -> None:
    """Partitions that only the target has do nothing; those that the source gets are copied into them."""
    create(flow.source, flow.stem, partitions=1)
    create(flow.target, flow.remote(flow.stem), partitions=3)
    link = flow.link(offsets=OffsetPolicy.MAPPED)

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:
            await asyncio.to_thread(produce, flow.source, flow.stem, partitions=1)
            await until_there(run, flow.target, flow.remote(flow.stem), [PER_PARTITION, 0, 0])
            await asyncio.to_thread(grow, flow.source, flow.stem, 2)
            await asyncio.to_thread(produce, flow.source, flow.stem, partitions=2, begin=PER_PARTITION)
            await until_there(run, flow.target, flow.remote(flow.stem), [2 * PER_PARTITION, PER_PARTITION, 0])

    asyncio.run(scenario())
    source = contents(flow.source, flow.stem, partitions=2)
    assert contents(flow.target, flow.remote(flow.stem)) == [*source, []]


def test_multi_node_cluster(flow: Flow, spark: SparkSession) -> None:
    """One run after the other is ended while the next one stands by: what that one's configuration says holds then, and
    no record is copied twice or left out.
    """
    first, second = f"{flow.stem}-1", f"{flow.stem}-2"
    for name in (first, second):
        create(flow.source, name)
        produce(flow.source, name)
    old = flow.link(include=(TopicPattern.parse(first),))
    new = replace(old, topics=replace(old.topics, include=(TopicPattern.parse(f"{flow.stem}*"),)))
    everything = [PER_PARTITION] * PARTITIONS

    async def scenario() -> None:
        async with running(configuration_of(old), spark) as one:
            await until_there(one, flow.target, flow.remote(first), everything)
            stand_by = partial(running, configuration_of(new), spark, when_occupied=WhenOccupied.STAND_BY)
            async with stand_by() as two:
                await two.until(lambda: bool(two.links) and two.links[0].state is LinkState.STANDBY)
                assert (await one.end_well()).exit_code == 0
                await asyncio.to_thread(produce, flow.source, first, begin=PER_PARTITION)
                await until_there(two, flow.target, flow.remote(second), everything)
                await until_there(two, flow.target, flow.remote(first), [2 * PER_PARTITION] * PARTITIONS)

    asyncio.run(scenario())
    for name in (first, second):
        assert contents(flow.target, flow.remote(name)) == contents(flow.source, name)
