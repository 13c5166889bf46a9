"""A group whose source has deleted its beginning goes to a cluster that has seen nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.local import LocalCluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.offsets import OffsetPolicy
from testing.groups import consumers
from testing.groups.carrying import going_on
from testing.records import topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration

MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("way", "offsets", "read_again"),
    [
        ("identity", OffsetPolicy.SAME, 0),
        # A margin of 60 seconds: the one message that is just so much older than the next.
        ("timestamp", OffsetPolicy.SAME, 1),
        ("timestamp", OffsetPolicy.MAPPED, 1),
        ("mapped", OffsetPolicy.MAPPED, 0),
    ],
)
def test_a_group_behind_a_deleted_beginning_goes_to_a_new_cluster(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
    way: Literal["identity", "timestamp", "mapped"],
    offsets: OffsetPolicy,
    read_again: int,
) -> None:
    """Of 35 messages 24 are gone and the group has read all: at the target it goes on with the next one, or by time a
    minute before that.
    """
    name = topic("example")
    messages = [Given(None, b"%d" % n, [], SEPTEMBER + n * MINUTE_MS) for n in range(1, 41)]
    topics.create(east, name)
    topics.produce(east, name, messages[:35])
    topics.delete_records(east, name, 24)
    consumers.commit(east, {name: {(name, 0): 35}})
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    link = replace(
        link,
        topics=replace(link.topics, offsets=offsets),
        groups=GroupSettings(include=(GroupPattern.parse(name),), way=way),
    )
    fabric = isthmus.open(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").records == 11
    topics.produce(east, name, messages[35:])
    assert fabric.run(until="caught-up").records == 5
    wanted = [b"%d" % n for n in range(36 - read_again, 41)]
    assert going_on(west, name, name, len(wanted)) == wanted
