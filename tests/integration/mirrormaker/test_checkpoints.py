"""What MirrorCheckpointTaskTest asks of the positions of groups at the target (docs/mm2-conformance.md)."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import OffsetCommitRequest
from pyspark.sql import SparkSession

import isthmus
from isthmus.local.probe import ask
from tests.integration.control.running import configuration_of
from tests.integration.groups import consumers
from tests.integration.mirrormaker.flows import PER_PARTITION, Flow, Side, create, positions, produce

pytestmark = pytest.mark.integration


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


def test_sync_offset(flow: Flow, spark: SparkSession) -> None:
    """A group that nobody is in is brought forward at the target, from where it stood there or from nowhere; one that
    has read further there stays.
    """
    create(flow.source, flow.stem, partitions=1)
    produce(flow.source, flow.stem, partitions=1)
    fabric = isthmus.open(configuration_of(flow.carrying().link()), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    here, there = (flow.stem, 0), (flow.remote(flow.stem), 0)
    behind, ahead, absent = (f"{flow.stem}-{word}" for word in ("behind", "ahead", "absent"))
    consumers.commit(flow.target.cluster, {behind: {there: 2}, ahead: {there: PER_PARTITION}})
    consumers.commit(flow.source.cluster, {behind: {here: 7}, ahead: {here: 7}, absent: {here: 7}})
    assert fabric.run(until="caught-up").exit_code == 0
    assert positions(flow.target, behind) == {there: 7}
    assert positions(flow.target, ahead) == {there: PER_PARTITION}
    assert positions(flow.target, absent) == {there: 7}


def test_sync_offset_for_target_group_with_null_offset_and_metadata(flow: Flow, spark: SparkSession) -> None:
    """A group whose position at the target is -1 gets that of the source, as one that has none there; a position of -1
    at the source is none: it is not carried, and the group's others are.
    """
    other = f"{flow.stem}-other"
    for name in (flow.stem, other):
        create(flow.source, name, partitions=1)
        produce(flow.source, name, partitions=1)
    fabric = isthmus.open(configuration_of(flow.carrying().link()), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    group = f"{flow.stem}-group"
    consumers.commit(flow.source.cluster, {group: {(flow.stem, 0): 7}})
    commit_nothing(flow.source, group, other)
    consumers.commit(flow.target.cluster, {group: {(flow.remote(other), 0): 3}})
    commit_nothing(flow.target, group, flow.remote(flow.stem))
    assert fabric.run(until="caught-up").exit_code == 0
    assert positions(flow.target, group) == {(flow.remote(flow.stem), 0): 7, (flow.remote(other), 0): 3}
