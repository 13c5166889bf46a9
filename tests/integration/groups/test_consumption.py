"""Groups as `isthmus cluster groups` shows them, held against kafka-consumer-groups and kafka-share-groups."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.fabric.fabric import Administration
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.kafka.consumption import GroupReport
from isthmus.model.kafka.group import GroupState, GroupType
from testing.groups import consumers
from testing.records import topics
from testing.records.topics import Given
from testing.records.trickle import trickling

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
HOUR_S: Final = 3600
TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def report_of(cluster: LocalCluster, group: str) -> GroupReport:
    """What is told of one group."""
    (report,) = Administration(cluster.cluster()).groups([group]).groups
    return report


def test_positions_and_lag_are_what_kafka_tells(east: LocalCluster, topic: TopicNamer) -> None:
    """Committed offsets, ends and lag agree with Kafka's own tool; the age is that of the next record."""
    name, group = topic("read"), topic("group")
    topics.create(east, name, partitions=3)
    hour_ago_ms = int(time.time() * 1000) - HOUR_S * 1000
    for partition in range(3):
        topics.produce(east, name, [Given(b"k", b"v", [], hour_ago_ms)] * 10, partition=partition)
    consumers.commit(east, {group: {(name, 0): 4, (name, 1): 10, (name, 2): 12}})

    report = report_of(east, group)
    told = kafka_tool(TOOL, "--bootstrap-server", east.bootstrap_servers, "--describe", "--group", group).stdout
    listed = re.findall(rf"{group}\s+{name}\s+(\d+)\s+(\d+)\s+(\d+)\s+(-?\d+)", told)
    assert sorted((int(n), int(at), int(end)) for n, at, end, _ in listed) == [
        (p.partition, p.committed, p.high_watermark) for p in report.positions
    ]
    assert [position.lag_records for position in report.positions] == [6, 0, 0]
    assert report.positions[0].lag_seconds == pytest.approx(HOUR_S, abs=60)
    assert report.positions[1].lag_seconds is None
    assert report.positions[2].problem == "the log ends 2 offsets before it"
    assert (report.lag_records, report.problem) == (6, None)


def test_members_state_and_coordinator_are_told(east: LocalCluster, topic: TopicNamer) -> None:
    """A group that reads has its members with what each reads, and the partition its coordinator comes from."""
    name, group = topic("joined"), topic("group")
    topics.create(east, name, partitions=2)
    with consumers.joined(east, group, name, "consumer"):
        report = report_of(east, group)
        assert report.description is not None
        assert (report.description.type, report.description.coordinator) == (GroupType.CONSUMER, 1)
        assert report.description.offsets_partition == 0
        (member,) = report.description.members
        assert member.assignment == ((name, 0), (name, 1))
    assert group in {each.group for each in Administration(east.cluster()).groups().groups}


def test_share_groups_are_listed_too(east: LocalCluster, topic: TopicNamer) -> None:
    """A share group keeps no committed offsets, and is there with its type and state."""
    name, group = topic("shared"), topic("share")
    topics.create(east, name)
    # It reads what comes after it has joined.
    with trickling(east, name, random.Random(1)):
        kafka_tool(
            *("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", east.bootstrap_servers),
            *("--topic", name, "--group", group, "--max-messages", "1", "--timeout-ms", "300000"),
        )
    found = {each.group: each for each in Administration(east.cluster()).groups().groups}
    described = found[group].description
    assert described is not None
    assert (described.type, described.state) == (GroupType.SHARE, GroupState.EMPTY)
    assert found[group].positions == ()


def test_absent_group_and_deleted_topic_stop_no_other(east: LocalCluster, topic: TopicNamer) -> None:
    """Each has a problem of its own, and the groups beside it are told as ever."""
    name, group, none = topic("there"), topic("group"), topic("nobody")
    topics.create(east, name)
    consumers.commit(east, {group: {(name, 0): 0}})

    absent, present = Administration(east.cluster()).groups([none, group]).groups

    assert absent.problem is not None
    assert "no such group" in absent.problem
    assert (present.problem, len(present.positions)) == (None, 1)
