"""Old brokers: sources that still store message sets from before Kafka 0.11, and targets of before 3.0."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final, cast

import pytest

from isthmus.configs.loop import ConfigsLoop
from isthmus.fabric.fabric import Administration, Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.local import LocalCluster
from isthmus.local.zookeeper import ZooKeeperModeCluster
from isthmus.loops.loop import LinkView
from isthmus.model.kafka.description import MetadataMode
from isthmus.model.kafka.transactions import TransactionState
from isthmus.topics.plan import LinkPlan
from testing.brokers.legacy import Old
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer, end_without_data, interleave
from testing.runs.mirror import Mirror
from testing.runs.mirrored import mirrored
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
LEFT_OUT: Final = "the target's brokers do not know message.downconversion.enable: left out"


@pytest.fixture(scope="module")
def old() -> Iterator[LocalCluster]:
    """A broker of 2.8.2 and its ZooKeeper."""
    with ZooKeeperModeCluster.start("2.8.2") as cluster:
        yield cast(LocalCluster, Old(cluster.bootstrap_servers))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_old_message_sets(
    old: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random, version: str, codec: str
) -> None:
    """Messages of magic 0 and 1 become records of magic 2 at the same offsets, beside newer batches; what verifies both
    sides can read them.
    """
    name = topic("ancient")
    topics.create(old, name, message_format_version=version)
    topics.create(west, name)
    given = [record._replace(headers=[]) for record in topics.some(350, chance)]
    topics.produce(old, name, given[:300], compression_type=codec, batch_num_messages=25)
    # This takes effect a little later, so some of the rest may be in the old format too.
    topics.configure(old, name, message_format_version="2.8")
    topics.produce(old, name, given[300:], compression_type=codec, batch_num_messages=1)

    Mirror(old, west).copy(name)

    here, there = (
        oracle.records(cluster.admin_bootstrap_servers, name, "read_uncommitted")[0] for cluster in (old, west)
    )
    # Magic 0 knows no timestamps: librdkafka shows 0 of no type at the source, and -1 at the target.
    assert version == "0.10.0" or {record.timestamp[1] for record in there[:300]} == {-1}
    there = [r._replace(timestamp=(0, 0)) if r.timestamp[1] == -1 else r for r in there]
    oracle.assert_equal(there, here, name)
    assert len(there) == 350
    for cluster in (old, west):
        assert asyncio.run(offsets_read(cluster, name)) == list(range(350))


async def offsets_read(cluster: LocalCluster, name: str) -> list[int]:
    """The offsets of a topic's batches, as a verification reads them."""
    async with Client(cluster.cluster()) as client:
        answers = LogReader(client).read(OffsetRange(name, 0, 0, 350))
        batches = [stored.batch async for found in answers for stored in found]
    return [offset for batch in batches for offset in range(batch.base_offset, batch.offset_end)]


def test_old_message_sets_with_a_deleted_beginning(
    old: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A log of compressed message sets that begins inside one of them keeps its offsets."""
    name = topic("ancient")
    topics.create(old, name, message_format_version="0.10.0")
    topics.create(west, name)
    given = [record._replace(headers=[]) for record in topics.some(100, chance)]
    topics.produce(old, name, given, compression_type="gzip", batch_num_messages=25)
    topics.delete_records(old, name, 40)

    Mirror(old, west).copy(name)

    assert oracle.assert_same(old, west, name) == 60


def test_old_target(east: LocalCluster, old: LocalCluster, topic: TopicNamer, chance: random.Random) -> None:
    """A target of 2.8 takes transactions, markers and a prefix as newer ones do."""
    name = topic("old")
    topics.create(east, name)
    topics.create(old, name)
    topics.produce(east, name, topics.some(60, chance), batch_num_messages=20)
    topics.delete_records(east, name, 30)
    end_without_data(east, name, commit=True)
    interleave(east, name, chance, steps=60, producers=2)

    Mirror(east, old).copy(name)

    oracle.assert_same(east, old, name)


def test_a_configuration_that_the_target_does_not_know(
    old: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """It is left out and told, in the plan and when configurations are compared; the topic is created with all else."""
    name = topic("unknown")
    topics.create(old, name, message_downconversion_enable="false", retention_bytes="12345")

    fabric = Fabric(configuration_of(link_of(old.cluster(), west.cluster(), name, name=name)))
    (planned,) = fabric.plan().links[0].topics

    async def scenario() -> list[str]:
        async with mirrored(old, west, name) as link:
            plan = await link.planned(name)
            assert plan.lanes
            whole = LinkPlan(link="east-west", source="old", target="west", topics=(plan,))
            view = LinkView(link=link.link, source=link.source, target=link.target, plan=whole)
            left = [change.problem for change in await ConfigsLoop().look(view)]
            return [problem.message for problem in left if problem is not None]

    told = asyncio.run(scenario())
    assert [note.message for note in planned.notes] == told == [LEFT_OUT]
    own = topics.own_configs(west, name)
    assert (own["retention.bytes"], "message.downconversion.enable" in own) == ("12345", False)


def test_what_an_old_broker_cannot_tell_is_said(old: LocalCluster, topic: TopicNamer) -> None:
    """A broker of 2.8 names the producer of an open transaction, and no coordinator: nothing is claimed about it."""
    name = topic("untold")
    topics.create(old, name)
    producer = TransactionalProducer(old, f"{name}-id")
    producer.send(name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 3)
    known = Administration(old.cluster())

    report = known.topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.first_offset) == (TransactionState.UNKNOWN, 0)
    assert report.findings == ()
    assert "not reported by this broker version" in report.not_told["transactions"]
    described = known.describe()
    assert (described.mode, described.controller, described.quorum) == (MetadataMode.ZOOKEEPER, 0, None)
    assert [broker.version for broker in described.brokers] == ["2.8"]
    producer.end(commit=True)
