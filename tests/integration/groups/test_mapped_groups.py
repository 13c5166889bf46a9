"""A mapped link as a whole: copied beside others, verified by its map, its group carried, and gone on at the target."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric
from isthmus.groups.positions.carrying import Standing
from isthmus.local import LocalCluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.offsets import OffsetPolicy
from testing.groups import consumers
from testing.groups.carrying import going_on
from testing.records import oracle, topics
from testing.records.compaction import Compacted, keys
from testing.records.flows import Side, positions
from testing.records.transactions import TransactionalProducer
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def mapped(link: Link, group: str) -> Link:
    """The link with mapped topics, and a group that it carries by their maps."""
    return replace(
        link,
        topics=replace(link.topics, offsets=OffsetPolicy.MAPPED),
        groups=GroupSettings(include=(GroupPattern.parse(group),), way="mapped"),
    )


def numbered(begin: int, end: int) -> list[topics.Given]:
    return [topics.Given(b"k", b"%d" % n, [], topics.SEPTEMBER + n) for n in range(begin, end)]


def test_a_group_goes_over(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, chance: random.Random
) -> None:
    """What others write at the target disturbs neither the copies nor the verdict, and the group misses and repeats
    nothing of the link's: also where the source ends with control records, and with aborted data before them.
    """
    name, group = topic("beside"), topic("beside")
    for cluster in (east, west):
        topics.create(cluster, name)
    topics.produce(west, name, topics.some(30, chance))
    topics.produce(east, name, numbered(0, 50))
    writing = TransactionalProducer(east, name)
    for begin, commit in ((1000, False), (50, True)):
        writing.send(name, numbered(begin, begin + 20))
        writing.end(commit=commit)
    consumers.commit(east, {group: {(name, 0): 0}})
    seen = going_on(east, group, name, 40)
    link = mapped(link_of(east.cluster(), west.cluster(), name, name=name), group)
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0

    # While its transaction is ending a plan cannot tell where it stands.
    assert positions(Side(west, "west"), group)
    (plan,) = fabric.groups.plan()
    assert [each.standing for each in plan.groups] == [Standing.IN_STEP]
    topics.produce(west, name, [topics.Given(None, b"of others", [], topics.SEPTEMBER)] * 10)
    topics.produce(east, name, numbered(70, 90))
    assert fabric.run(until="caught-up").exit_code == 0

    verdict = fabric.verify()[name]
    assert (verdict.equal, verdict.records) == (True, 90)
    (verified,) = verdict.topics
    assert (verified.offsets, verified.left_out, verified.missing) == (OffsetPolicy.MAPPED, 20, 0)
    drilled = fabric.groups.drill(group)
    assert (drilled.skipped, drilled.read_again, drilled.problem) == (0, 0, None)
    assert [each.waiting for each in drilled.positions] == [0]
    rest = going_on(west, group, name, 30 + 10 + 20)
    assert seen + [value for value in rest if value.isdigit()] == [b"%d" % n for n in range(90)]


def test_positions_in_a_compacted_source(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """Wherever a group stands, on a record that the cleaner left or in a hole, its next record is the same at the
    target, where records of others come first.
    """
    topics.configure_broker(east, log_cleaner_backoff_ms=100)
    source = Compacted(east, topic("cleaned"))
    name, behind = source.name, 7
    source.write(keys("a", 8) + keys("once", 2))
    source.write(keys("a", 8)[::2] + keys("b", 3))
    source.write([*keys("b", 3)[1:], b"last"])
    source.write([b"tail"])
    topics.create(west, name)
    topics.produce(west, name, numbered(0, behind))
    source.await_cleaning(4 + 2 + 4 + 1 + 2 + 2)
    kept = [seen.offset for seen in oracle.records(east.bootstrap_servers, name)[0]]
    end = kept[-1] + 1
    assert len(kept) < end, "nothing was cleaned"
    consumers.commit(east, {f"{name}-{offset}": {(name, 0): offset} for offset in range(end + 1)})

    link = mapped(link_of(east.cluster(), west.cluster(), name, name=name), f"{name}-*")
    assert Fabric(configuration_of(link), spark=spark).run(until="caught-up").exit_code == 0

    found = [positions(Side(west, "west"), f"{name}-{offset}") for offset in range(end + 1)]
    assert found == [{(name, 0): behind + sum(each < offset for each in kept)} for offset in range(end + 1)]
    values = [[seen.value for seen in oracle.records(each.bootstrap_servers, name)[0]] for each in (east, west)]
    assert values[1][behind:] == values[0]
