"""A source whose log begins above 0: its records keep their offsets, and the target's log begins there too."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.brokers.acls import denied
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror, all_are

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.mark.parametrize("start", [100, 123, 299], ids=["at a batch", "inside a batch", "at the last record"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_deleted_before_the_start(
    mirror: Mirror, topic: TopicNamer, chance: random.Random, start: int, codec: str
) -> None:
    """What the source deleted is deleted at the target too, also where its log begins inside a batch."""
    name = topic("prefix")
    topics.create_both(mirror.source, mirror.target, name)
    given = topics.some(300, chance)
    topics.produce(mirror.source, name, given, batch_num_messages=100, compression_type=codec)
    topics.delete_records(mirror.source, name, start)

    mirror.copy(name)

    assert oracle.ends(mirror.target.bootstrap_servers, name).start == start
    assert oracle.assert_same(mirror.source, mirror.target, name) == 300 - start


def test_everything_deleted(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A log that is empty but ends above 0 does so at the target, and what comes later follows."""
    name = topic("emptied")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(40, chance))
    topics.delete_records(mirror.source, name, 40)

    mirror.copy(name)
    assert oracle.ends(mirror.target.bootstrap_servers, name) == oracle.Ends(40, 40, 40)
    topics.produce(mirror.source, name, topics.some(10, chance))
    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name) == 10


def test_start_within_a_transaction(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A log that begins inside an aborted transaction looks the same to both kinds of consumers."""
    name = topic("within")
    topics.create_both(mirror.source, mirror.target, name)
    writing = TransactionalProducer(mirror.source, name, batch_num_messages=10)
    writing.send(name, topics.some(40, chance))
    writing.end(commit=False)
    topics.produce(mirror.source, name, topics.some(10, chance))
    topics.delete_records(mirror.source, name, 25)

    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name)


def test_crashes_while_the_prefix_is_filled(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """An engine cut off while it fills the prefix is followed by one that goes on where it stopped."""
    name = topic("long")
    topics.create_both(mirror.source, mirror.target, name)
    topics.fill(mirror.source, name, 1_200_000)
    topics.produce(mirror.source, name, topics.some(50, chance))
    topics.delete_records(mirror.source, name, 1_150_007)

    mirror.copy_with_crashes(name, chance, crashes=5)

    ends = oracle.ends(mirror.source.bootstrap_servers, name)
    assert ends == oracle.Ends(1_150_007, 1_200_050, 1_200_050)
    assert oracle.assert_same(mirror.source, mirror.target, name) == 50_043


def test_crashes_while_what_is_left_at_the_source_is_filled(
    mirror: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """A lane that is to begin inside the source's log does so exactly there, wherever it was cut off: what lies before
    is filled and deleted, and what comes later follows.
    """
    name, begin = topic("left"), 1_150_007
    topics.create_both(mirror.source, mirror.target, name)
    topics.fill(mirror.source, name, 1_200_000)
    topics.produce(mirror.source, name, topics.some(50, chance))

    mirror.copy_with_crashes(name, chance, crashes=5, begin_offset=begin)
    topics.produce(mirror.source, name, topics.some(50, chance))
    mirror.copy(name, begin_offset=begin)

    ends = oracle.ends(mirror.target.bootstrap_servers, name)
    assert ends == oracle.Ends(begin, 1_200_100, 1_200_100)
    topics.delete_records(mirror.source, name, begin)
    assert oracle.assert_same(mirror.source, mirror.target, name) == 50_093


def test_what_others_wrote_among_fillers_is_not_deleted(
    mirror: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """Fillers that were on their way when somebody else wrote stand behind that record: their end alone looks right."""
    name = topic("mixed")
    topics.create_both(mirror.source, mirror.target, name)
    topics.fill(mirror.source, name, 300)
    topics.produce(mirror.source, name, topics.some(20, chance))
    topics.delete_records(mirror.source, name, 300)
    topics.fill(mirror.target, name, 40, sequence=0)
    topics.produce(mirror.target, name, topics.some(1, chance))
    topics.fill(mirror.target, name, 40, behind=41, sequence=40)

    (report,) = mirror.copy(name, until=all_are(LaneState.FOREIGN_WRITE)).values()

    assert report.problem is not None
    assert "fillers alone" in report.problem.message
    assert oracle.ends(mirror.target.bootstrap_servers, name) == oracle.Ends(0, 81, 81)


def test_fillers_are_deleted_by_the_next_owner(
    east: LocalCluster, guarded: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Fillers that could not be deleted yet are no records: the next engine deletes them, even with other ids."""
    name = topic("undeleted")
    topics.create_both(east, guarded, name)
    topics.produce(east, name, topics.some(50, chance))
    topics.delete_records(east, name, 30)
    mirror = Mirror(east, guarded)

    with denied(guarded, ResourceType.TOPIC, name, AclOperation.DELETE):
        reports = mirror.copy(name, until=all_are(LaneState.NOT_AUTHORIZED))
    assert reports[LaneKey(TargetTopic(name), 0)].position == 30
    mirror.forget()
    mirror.copy(name)

    assert oracle.assert_same(east, guarded, name) == 20


def test_source_deletes_on_while_the_prefix_is_filled(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A prefix that grew before the first record was copied is filled to its new end: nothing is missing."""
    name = topic("growing")
    topics.create_both(mirror.source, mirror.target, name)
    topics.fill(mirror.source, name, 600_000)
    topics.produce(mirror.source, name, topics.some(50, chance))
    topics.delete_records(mirror.source, name, 400_000)

    async def stop_early() -> None:
        async with mirror.running(name) as running:
            await running.until(lambda reports: reports[LaneKey(TargetTopic(name), 0)].position >= 100_000, look_s=0)
            await running.engine.stop(drain_s=0.0)

    asyncio.run(stop_early())
    topics.delete_records(mirror.source, name, 600_010)
    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name) == 40
