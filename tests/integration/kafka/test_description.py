"""Clusters described, held against what Kafka's own tools and librdkafka say."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from isthmus.clusters.description import describe
from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Administration
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.cluster import Cluster, is_cluster_id
from isthmus.model.kafka.description import ClusterReport, MetadataMode
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def described(cluster: Cluster) -> ClusterReport:
    """The report on a cluster."""

    async def scenario() -> ClusterReport:
        async with Client(cluster) as client:
            return await describe(client)

    return asyncio.run(scenario())


def quorum_leader(cluster: LocalCluster) -> tuple[ClusterReport, tuple[int, int]]:
    """The report on a cluster, and who kafka-metadata-quorum says led it then, in which epoch."""
    command = ("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", cluster.bootstrap_servers)
    before = described(cluster.cluster())
    while True:
        status = kafka_tool(*command, "describe", "--status").stdout
        leader = re.search(r"LeaderId:\s+(\d+)\s+LeaderEpoch:\s+(\d+)", status)
        assert leader is not None, status
        # There may have been an election while the tool started.
        report, before = before, described(cluster.cluster())
        assert report.quorum is not None
        assert before.quorum is not None
        # Nor does a node tell all while it stands still.
        if report.quorum.leader_epoch == before.quorum.leader_epoch and not report.not_told:
            return report, (int(leader[1]), int(leader[2]))


def test_cluster_is_what_others_say_it_is(east3: LocalCluster, topic: TopicNamer) -> None:
    """Id, brokers and the controllers are those that librdkafka and kafka-metadata-quorum tell."""
    name = topic("described")
    topics.create(east3, name, partitions=6, replicas=3)
    report, leader = quorum_leader(east3)

    admin = AdminClient({"bootstrap.servers": east3.bootstrap_servers})
    told = admin.describe_cluster().result(30)
    assert report.cluster_id == told.cluster_id
    assert is_cluster_id(report.cluster_id)
    assert {(b.node_id, b.endpoint) for b in report.brokers} == {(n.id, f"{n.host}:{n.port}") for n in told.nodes}
    assert {broker.version for broker in report.brokers} == {"4.4"}
    assert report.mode is MetadataMode.KRAFT
    assert report.quorum is not None
    assert (report.quorum.leader_id, report.quorum.leader_epoch) == leader
    assert report.controller == leader[0]
    assert {voter.node_id for voter in report.quorum.voters} == {1, 2, 3}
    assert all(voter.endpoints for voter in report.quorum.voters)
    assert {feature.name for feature in report.features} >= {"metadata.version", "transaction.version"}
    # Other tests leave their topics as they like; what is wrong with the cluster itself would be told here.
    deadline = time.monotonic() + TERM_S
    while found := [f for f in report.findings if f.subject in ("east3", f"east3/{name}") and f.check != "leader skew"]:
        # A node that stood still is behind for a moment.
        assert time.monotonic() < deadline, found
        report = described(east3.cluster())


def test_partitions_are_as_librdkafka_sees_them(east: LocalCluster, topic: TopicNamer) -> None:
    """Leaders, replicas and the offsets of the log agree."""
    name = topic("seen")
    topics.create(east, name, partitions=2, min_insync_replicas=1)
    topics.produce(east, name, topics.some(7, random.Random(1)))
    report = Administration(east.cluster()).topics([name])

    admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
    places = [TopicPartition(name, number) for number in range(2)]
    latest = OffsetSpec.latest()
    asked = admin.list_offsets(dict.fromkeys(places, latest))
    ends = {place.partition: future.result(30).offset for place, future in asked.items()}
    told = admin.list_topics(name, timeout=TERM_S).topics[name].partitions
    assert [(p.topic, p.partition) for p in report.partitions] == [(name, 0), (name, 1)]
    for partition in report.partitions:
        seen = told[partition.partition]
        assert (partition.leader, partition.replicas) == (seen.leader, tuple(seen.replicas))
        assert partition.isr == tuple(seen.isrs)
        assert (partition.log_start, partition.high_watermark) == (0, ends[partition.partition])
        assert partition.stable_end == partition.high_watermark
        assert partition.min_insync_replicas == 1
        assert partition.leader_epoch >= 0


def test_unknown_topic_is_said_to_be_unknown(east: LocalCluster, topic: TopicNamer) -> None:
    """A topic that is not there is an error with the nearest name, not an empty answer."""
    name = topic("known")
    topics.create(east, name)

    with pytest.raises(ConfigError, match="has no topic") as error:
        Administration(east.cluster()).topics([f"{name}x"])

    assert name in error.value.hint
