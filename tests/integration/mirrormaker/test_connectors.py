"""What MirrorConnectorsIntegrationBaseTest asks of MirrorMaker 2, on our links (docs/mm2-conformance.md)."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from pyspark.sql import SparkSession

import isthmus
from isthmus.model.lane import LaneState
from isthmus.model.offsets import LATEST, OffsetPolicy
from testing.groups import consumers
from testing.records import topics
from testing.records.flows import (
    PARTITIONS,
    PER_PARTITION,
    Flow,
    Side,
    Way,
    consume,
    contents,
    create,
    go_on,
    numbered,
    positions,
    produce,
    until_at,
    until_there,
    values,
)
from testing.records.transactions import TransactionalProducer
from testing.runs.running import configuration_of, patient, running

pytestmark = pytest.mark.integration

ALL = PARTITIONS * PER_PARTITION
BOTH_WAYS_OF_OFFSETS = pytest.mark.parametrize(
    ("offsets", "way"), [(OffsetPolicy.SAME, "identity"), (OffsetPolicy.MAPPED, "mapped")], ids=["same", "mapped"]
)


def config_of(side: Side, topic: str, name: str) -> str | None:
    """One configuration of a topic."""
    admin = AdminClient({"bootstrap.servers": side.servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found: str | None = admin.describe_configs([resource])[resource].result(30)[name].value
    return found


def at(topic: str, offset: int) -> dict[tuple[str, int], int]:
    """A position in each partition of a topic."""
    return {(topic, partition): offset for partition in range(PARTITIONS)}


@BOTH_WAYS_OF_OFFSETS
def test_replication(flow: Flow, spark: SparkSession, offsets: OffsetPolicy, way: Way) -> None:
    """Both directions at once: every record once under the names of MirrorMaker 2, topics with their configuration,
    a group that fails over and fails back, and topics that come later.
    """
    name, group = f"{flow.stem}-1", f"{flow.stem}-group"
    forth, back = flow.carrying(way), flow.back.carrying(way)
    for side in (flow.source, flow.target):
        create(side, name, retention_bytes=1_000_000)
        produce(side, name)
        assert len(consume(side, group, [name], ALL)) == ALL

    async def scenario() -> None:
        configuration = configuration_of(forth.link(offsets=offsets), back.link(offsets=offsets))
        async with running(configuration, spark) as run:
            for one in (forth, back):
                await until_there(run, one.target, one.remote(name), [PER_PARTITION] * PARTITIONS)
                await until_at(run, one.target, group, at(name, PER_PARTITION) | at(one.remote(name), PER_PARTITION))
                later = f"{one.stem}-from-{one.source.alias}"
                await asyncio.to_thread(create, one.source, later)
                await asyncio.to_thread(produce, one.source, later, partitions=1)
                await until_there(run, one.target, one.remote(later), [PER_PARTITION, 0, 0])

    asyncio.run(scenario())
    for one in (forth, back):
        assert contents(one.target, one.remote(name)) == contents(one.source, name)
        assert config_of(one.target, one.remote(name), "retention.bytes") == "1000000"
        either = consume(one.target, f"{group}-super", [f"^.*{name}"], 2 * ALL)
        assert len(either) == 2 * ALL
        produce(one.target, one.remote(name), count=1, begin=500)
        assert sorted(go_on(one.target, group, one.remote(name), PARTITIONS)) == [b"1500", b"2500", b"500"]
    for one in (forth, back):
        own = {name, f"{one.stem}-from-{one.target.alias}"}
        theirs = {one.remote(name), one.remote(f"{one.stem}-from-{one.source.alias}")}
        assert {each for each in topics.names(one.target.cluster) if flow.stem in each} == own | theirs


@BOTH_WAYS_OF_OFFSETS
def test_replication_with_empty_partition(flow: Flow, spark: SparkSession, offsets: OffsetPolicy, way: Way) -> None:
    """A partition without a record has its position at the target too, and that is 0."""
    create(flow.source, flow.stem)
    produce(flow.source, flow.stem, partitions=PARTITIONS - 1)
    at_end = {(flow.stem, 0): PER_PARTITION, (flow.stem, 1): PER_PARTITION, (flow.stem, 2): 0}
    consumers.commit(flow.source.cluster, {flow.stem: at_end})
    link = flow.carrying(way).link(offsets=offsets)
    assert isthmus.open(configuration_of(link), spark=spark).run(until="caught-up").exit_code == 0
    expected = {(flow.remote(topic), partition): offset for (topic, partition), offset in at_end.items()}
    assert positions(flow.target, flow.stem) == expected


def test_one_way_replication_with_auto_offset_sync(flow: Flow, spark: SparkSession) -> None:
    """A group's positions are at the target while it reads at the source: nothing is read again, also of a topic that
    came later, and nothing goes the other way.
    """
    # Also where it had read the new topic before that was mirrored: no other look at all groups comes after the first.
    timings = patient(groups_s=600.0)
    first, second, group = f"{flow.stem}-1", f"{flow.stem}-2", f"{flow.stem}-group"
    create(flow.source, first)
    produce(flow.source, first)
    consume(flow.source, group, [first], ALL)

    async def scenario() -> None:
        async with running(configuration_of(flow.carrying().link()), spark, timings=timings) as run:
            await until_at(run, flow.target, group, at(flow.remote(first), PER_PARTITION))
            await asyncio.to_thread(create, flow.source, second)
            await asyncio.to_thread(produce, flow.source, second)
            await asyncio.to_thread(consume, flow.source, group, [second], ALL)
            both = at(flow.remote(first), PER_PARTITION) | at(flow.remote(second), PER_PARTITION)
            await until_at(run, flow.target, group, both)

    asyncio.run(scenario())
    produce(flow.target, flow.remote(second), count=1, begin=500)
    assert sorted(go_on(flow.target, group, flow.remote(second), PARTITIONS)) == [b"1500", b"2500", b"500"]
    assert flow.back.remote(first) not in topics.names(flow.source.cluster)


def test_one_way_replication_with_frequent_offset_syncs(flow: Flow, spark: SparkSession) -> None:
    """Every position is translated exactly, though the source's offsets have gaps: as if each record had a sync."""
    create(flow.source, flow.stem, partitions=1)
    create(flow.target, flow.remote(flow.stem), partitions=1)
    topics.produce(flow.target.cluster, flow.remote(flow.stem), numbered(7, begin=900))
    writing = TransactionalProducer(flow.source.cluster, flow.stem)
    for begin in range(0, 18, 3):
        writing.send(flow.stem, numbered(3, begin=begin))
        writing.end(commit=True)
    ends_at = 18 + 6
    groups = {f"{flow.stem}-at-{offset}": {(flow.stem, 0): offset} for offset in range(ends_at + 1)}
    consumers.commit(flow.source.cluster, groups)
    link = flow.carrying("mapped").link(offsets=OffsetPolicy.MAPPED)
    assert isthmus.open(configuration_of(link), spark=spark).run(until="caught-up").exit_code == 0
    for offset in range(ends_at + 1):
        # Three records and the end of their transaction, behind seven records of others.
        expected = 7 + 3 * (offset // 4) + min(offset % 4, 3)
        assert positions(flow.target, f"{flow.stem}-at-{offset}") == {(flow.remote(flow.stem), 0): expected}


def test_replication_without_offset_sync_will_not_create_offset_syncs_topic(flow: Flow, spark: SparkSession) -> None:
    """A link that writes nothing for MirrorMaker 2's tools leaves no topic of that kind on either side."""
    create(flow.source, flow.stem)
    produce(flow.source, flow.stem)
    before = {side.alias: topics.names(side.cluster) for side in (flow.source, flow.target)}
    link = flow.link()
    assert isthmus.open(configuration_of(link), spark=spark).run(until="caught-up").records == ALL
    ours = {flow.remote(flow.stem), "__isthmus.ledger", "__consumer_offsets", "__transaction_state"}
    for side in (flow.source, flow.target):
        assert topics.names(side.cluster) - before[side.alias] <= ours


def test_no_checkpoints_if_no_records_are_mirrored(flow: Flow, spark: SparkSession) -> None:
    """Where nothing has been copied yet a group stands before the first record that will be, or nowhere: not before
    records of others. It follows once there are records.
    """
    full, empty, group = f"{flow.stem}-1", f"{flow.stem}-no-checkpoints", f"{flow.stem}-group"
    for name in (full, empty):
        create(flow.source, name, partitions=1)
        create(flow.target, flow.remote(name), partitions=1)
        topics.produce(flow.target.cluster, flow.remote(name), numbered(5, begin=900))
    produce(flow.source, full, partitions=1)
    consumers.commit(flow.source.cluster, {group: {(full, 0): PER_PARTITION, (empty, 0): 0}})
    there = (flow.remote(empty), 0)

    async def scenario() -> None:
        link = flow.carrying("mapped").link(offsets=OffsetPolicy.MAPPED)
        async with running(configuration_of(link), spark) as run:

            async def is_carried() -> bool:
                found = await asyncio.to_thread(positions, flow.target, group)
                assert found.get(there, 5) == 5
                return found.get((flow.remote(full), 0)) == 5 + PER_PARTITION

            await run.until(is_carried)
            await asyncio.to_thread(produce, flow.source, empty, partitions=1)
            await asyncio.to_thread(consumers.commit, flow.source.cluster, {group: {(empty, 0): PER_PARTITION}})
            both = dict.fromkeys([(flow.remote(full), 0), there], 5 + PER_PARTITION)
            await until_at(run, flow.target, group, both)

    asyncio.run(scenario())


def test_restart_replication(flow: Flow, spark: SparkSession) -> None:
    """A run that follows another copies no record twice, and groups go on where they were left."""
    group = f"{flow.stem}-group"
    create(flow.source, flow.stem)
    configuration = configuration_of(flow.carrying().link())

    async def scenario() -> None:
        for round_ in (1, 2):
            await asyncio.to_thread(produce, flow.source, flow.stem, begin=(round_ - 1) * PER_PARTITION)
            await asyncio.to_thread(consume, flow.source, group, [flow.stem], ALL)
            async with running(configuration, spark) as run:
                await until_at(run, flow.target, group, at(flow.remote(flow.stem), round_ * PER_PARTITION))
                assert (await run.end()).records == ALL

    asyncio.run(scenario())
    assert contents(flow.target, flow.remote(flow.stem)) == contents(flow.source, flow.stem)


def test_offset_translation_behind_replication_flow(flow: Flow, spark: SparkSession) -> None:
    """A group far behind what is copied advances with its source, and goes back with it: to the very record."""
    group, remote = f"{flow.stem}-group", flow.remote(flow.stem)
    create(flow.source, flow.stem, partitions=1)
    create(flow.target, remote, partitions=1)
    consumers.commit(flow.source.cluster, {group: {(flow.stem, 0): 0}})
    link = flow.carrying("mapped").link(offsets=OffsetPolicy.MAPPED)

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:
            for round_ in range(1, 6):
                others = numbered(7, begin=9000 + round_)
                await asyncio.to_thread(topics.produce, flow.target.cluster, remote, others)
                more = numbered(200, begin=200 * (round_ - 1))
                await asyncio.to_thread(topics.produce, flow.source.cluster, flow.stem, more)
                await until_there(run, flow.target, remote, [207 * round_])
            (held,) = await asyncio.to_thread(values, flow.target, remote, partitions=1)
            for offset in (900, 100):
                await asyncio.to_thread(consumers.commit, flow.source.cluster, {group: {(flow.stem, 0): offset}})
                await until_at(run, flow.target, group, {(remote, 0): held.index(b"%d" % offset)})

    asyncio.run(scenario())


def test_replicate_from_latest(flow: Flow, spark: SparkSession) -> None:
    """With `start: latest` only what comes after the link began is copied."""
    create(flow.source, flow.stem)
    produce(flow.source, flow.stem)
    link = flow.link(offsets=OffsetPolicy.MAPPED, start=LATEST)

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as run:
            await run.until(lambda: run.state_of(flow.remote(flow.stem)) is LaneState.ACTIVE)
            await asyncio.to_thread(produce, flow.source, flow.stem, begin=PER_PARTITION)
            await until_there(run, flow.target, flow.remote(flow.stem), [PER_PARTITION] * PARTITIONS)

    asyncio.run(scenario())
    added = [records[PER_PARTITION:] for records in values(flow.source, flow.stem)]
    assert values(flow.target, flow.remote(flow.stem)) == added
