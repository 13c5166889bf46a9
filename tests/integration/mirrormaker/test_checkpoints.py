"""What MirrorCheckpointTaskTest asks of the positions of groups at the target (docs/mm2-conformance.md)."""

from __future__ import annotations

import asyncio

import pytest
from kafka.protocol.consumer import OffsetCommitRequest
from pyspark.sql import SparkSession

import isthmus
from isthmus.groups.positions.carrying import Standing
from isthmus.local.probe import ask
from testing.groups import consumers
from testing.records.flows import PER_PARTITION, Flow, Side, create, positions, produce, until_at, until_there
from testing.runs.running import Running, configuration_of, running

pytestmark = pytest.mark.integration


def standings(run: Running) -> dict[str, str]:
    """How the groups stand, as the run says."""
    return {group.group: group.standing for link in run.links for group in link.groups}


def commit_nothing(side: Side, group: str, topic: str) -> None:
    """Commit offset -1, as some clients do for a partition of which they have read nothing (KAFKA-15607)."""
    topics = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topics.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=-1, committed_leader_epoch=-1, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topics(name=topic, partitions=[partition])],
        # Later versions name topics by their ids.
        max_version=9,
    )
    port = int(side.servers.rpartition(":")[2])
    (answer,) = ask(port, request, cluster="local").topics
    assert [each.error_code for each in answer.partitions] == [0]


def test_downstream_topic_renaming(flow: Flow, spark: SparkSession) -> None:
    """A group that reads at the source what came from the target stands there in the topic that it came from."""
    create(flow.target, flow.stem, partitions=1)
    produce(flow.target, flow.stem, partitions=1)
    fabric = isthmus.open(configuration_of(flow.back.link(), flow.carrying().link()), spark=spark)
    assert fabric.run(until="caught-up").records == PER_PARTITION
    consumers.commit(flow.source.cluster, {flow.stem: {(flow.back.remote(flow.stem), 0): 7}})
    fabric.run(until="caught-up")
    assert positions(flow.target, flow.stem) == {(flow.stem, 0): 7}


def test_sync_offset(flow: Flow, spark: SparkSession) -> None:
    """A group that nobody is in is brought forward at the target, from where it stood there or from nowhere; one that
    has read further there stays, and says so.
    """
    create(flow.source, flow.stem, partitions=1)
    produce(flow.source, flow.stem, partitions=1)
    here, there = (flow.stem, 0), (flow.remote(flow.stem), 0)
    behind, ahead, absent = (f"{flow.stem}-{word}" for word in ("behind", "ahead", "absent"))

    async def scenario() -> None:
        async with running(configuration_of(flow.carrying().link()), spark) as run:
            await until_there(run, flow.target, flow.remote(flow.stem), [PER_PARTITION])
            at_target = {behind: {there: 2}, ahead: {there: PER_PARTITION}}
            await asyncio.to_thread(consumers.commit, flow.target.cluster, at_target)
            at_source = {group: {here: 7} for group in (behind, ahead, absent)}
            await asyncio.to_thread(consumers.commit, flow.source.cluster, at_source)
            for group in (behind, absent):
                await until_at(run, flow.target, group, {there: 7})
            await run.until(lambda: standings(run).get(ahead) == Standing.AHEAD_AT_TARGET)
            assert await asyncio.to_thread(positions, flow.target, ahead) == {there: PER_PARTITION}

    asyncio.run(scenario())


def test_sync_offset_for_target_group_with_null_offset_and_metadata(flow: Flow, spark: SparkSession) -> None:
    """A group whose position at the target is -1 gets that of the source, as one that has none there; a position of -1
    at the source is none: it is not carried, and the group's others are.
    """
    other, group = f"{flow.stem}-other", f"{flow.stem}-group"
    for name in (flow.stem, other):
        create(flow.source, name, partitions=1)
        produce(flow.source, name, partitions=1)

    async def scenario() -> None:
        async with running(configuration_of(flow.carrying().link()), spark) as run:
            for name in (flow.stem, other):
                await until_there(run, flow.target, flow.remote(name), [PER_PARTITION])
            at_target = {group: {(flow.remote(other), 0): 3}}
            await asyncio.to_thread(consumers.commit, flow.target.cluster, at_target)
            await asyncio.to_thread(commit_nothing, flow.target, group, flow.remote(flow.stem))
            await asyncio.to_thread(commit_nothing, flow.source, group, other)
            await asyncio.to_thread(consumers.commit, flow.source.cluster, {group: {(flow.stem, 0): 7}})
            await until_at(run, flow.target, group, {(flow.remote(flow.stem), 0): 7, (flow.remote(other), 0): 3})
            await run.until(lambda: standings(run).get(group) == Standing.IN_STEP)

    asyncio.run(scenario())
