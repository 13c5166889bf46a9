"""What becomes of aborted records: told before, while and after a run, and judged by a verification."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.link import Link, Transactions
from isthmus.model.links.recovery import RecoveryWay
from isthmus.model.text.plain import plain
from testing.brokers.hanging import trusting
from testing.records import oracle, topics
from testing.records.omission import assert_left_out
from testing.records.transactions import TransactionalProducer, interleave
from testing.runs.running import configuration_of, link_of
from testing.verbs import LinkRecoverer

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def wanting(link: Link, aborted: AbortedPolicy) -> Link:
    """The link, with this configured."""
    return replace(link, transactions=Transactions(aborted=aborted))


def test_left_out_where_the_target_verifies(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, chance: random.Random
) -> None:
    """Kafka's defaults: nothing stops, consumers at read_committed see the same, and what is left out is counted."""
    name = topic("verifying")
    topics.create(east, name, partitions=2)
    interleave(east, name, chance, steps=60, partitions=2)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    fabric = Fabric(configuration_of(link), spark=spark)
    (planned,) = fabric.plan().links
    assert planned.aborted is not None
    assert planned.aborted.policy is AbortedPolicy.OMIT
    assert "verify transactions" in planned.aborted.reason
    assert not any("twice" in problem.message for problem in planned.advice)

    outcome = fabric.run(until="caught-up")

    assert outcome.exit_code == 0
    left_out = assert_left_out(east, west, name, partitions=2)
    (progress,) = fabric.status()
    assert plain(progress)["aborted"] == "omit"
    verdict = fabric.verify()[name]
    assert verdict.equal
    assert (verdict.aborted, verdict.topics[0].left_out, verdict.topics[0].missing) == ("omit", left_out, 0)

    copying = Fabric(configuration_of(wanting(link, AbortedPolicy.COPY)), spark=spark)
    verdict = copying.verify()[name]
    assert not verdict.equal
    assert (verdict.aborted, verdict.topics[0].left_out, verdict.topics[0].missing) == ("copy", 0, left_out)
    (planned,) = copying.plan().links
    assert planned.aborted is not None
    assert planned.aborted.risk is not None
    assert any("twice" in problem.message for problem in planned.advice)


def test_copied_where_the_target_does_not_verify(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, chance: random.Random
) -> None:
    """The same link copies then, and what it left out before stays so and is counted."""
    name = topic("trusting")
    topics.create(east, name)
    writing = TransactionalProducer(east, f"{name}-id")
    writing.send(name, topics.some(10, chance))
    writing.end(commit=False)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    writing.send(name, topics.some(20, chance))
    writing.end(commit=False)

    behind = fabric.verify()[name]
    assert (behind.equal, behind.topics[0].missing, behind.topics[0].left_out) == (False, 20, 10)
    with trusting(west):
        (planned,) = fabric.plan().links
        assert planned.aborted is not None
        assert planned.aborted.policy is AbortedPolicy.COPY
        assert fabric.run(until="caught-up").exit_code == 0
        verdict = fabric.verify()[name]

    assert (verdict.equal, verdict.aborted, verdict.topics[0].left_out) == (True, "copy", 10)
    seen = oracle.records(west.admin_bootstrap_servers, name, "read_uncommitted")[0]
    assert [record.offset for record in seen] == list(range(11, 31))


def test_whole_where_the_target_does_not_verify(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, chance: random.Random
) -> None:
    """What is open at the source is at the target by then, and a plan that is made meanwhile finds nothing wrong."""
    name = topic("whole")
    topics.create(east, name)
    writing = TransactionalProducer(east, f"{name}-id")
    writing.send(name, topics.some(10, chance))
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    link = replace(link, transactions=Transactions(visibility=Visibility.AUTO))
    fabric = Fabric(configuration_of(link), spark=spark)
    (planned,) = fabric.plan().links
    assert planned.visibility is not None
    assert "verify transactions" in str(planned.visibility)

    with trusting(west):
        assert fabric.run(until="caught-up").exit_code == 0
        assert oracle.ends(west.admin_bootstrap_servers, name) == oracle.Ends(0, 0, 10)
        (planned,) = fabric.plan().links
        assert plain(planned)["visibility"] == "whole"
        assert not planned.has_refusals
        assert planned.is_examined
        writing.end(commit=True)
        assert fabric.run(until="caught-up").exit_code == 0
        assert fabric.verify()[name].equal

    oracle.assert_same(east, west, name)


def test_what_is_open_goes_with_its_topic(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, chance: random.Random
) -> None:
    """A target topic in which a transaction is open is rebuilt: what others committed behind its beginning is set
    aside, and copies of what is committed are nobody else's. A topic that the source has deleted goes as well.
    """
    name = topic("open")
    topics.create(east, name)
    writing = TransactionalProducer(east, f"{name}-id")
    writing.send(name, topics.some(10, chance))
    writing.end(commit=True)
    writing.send(name, topics.some(10, chance))
    link = replace(
        link_of(east.cluster(), west.cluster(), name, name=name), transactions=Transactions(visibility=Visibility.AUTO)
    )
    configuration = configuration_of(link)
    fabric = Fabric(configuration, spark=spark)

    with trusting(west):
        assert fabric.run(until="caught-up").exit_code == 0
        assert oracle.ends(west.admin_bootstrap_servers, name) == oracle.Ends(0, 11, 21)
        recoverer = LinkRecoverer(configuration=configuration, name=name, topics=(name,), quiet_s=0.3)
        assert not any(each.has_diverged for each in asyncio.run(recoverer.recover(dry_run=True)).topics[0].partitions)
        topics.produce(west, name, topics.some(3, chance))
        mapped = replace(recoverer, way=RecoveryWay.MAPPED, timeout_s=0.5)
        with pytest.raises(GateNotMet, match=f"a transaction is open in {name}-0"):
            asyncio.run(mapped.recover())
        (recovered,) = asyncio.run(replace(recoverer, way=RecoveryWay.REBUILD).recover()).topics
        assert (recovered.partitions[0].shared, recovered.quarantined) == (21, 3)
        assert fabric.run(until="caught-up").exit_code == 0
        writing.end(commit=True)
        assert fabric.run(until="caught-up").exit_code == 0
        oracle.assert_same(east, west, name)

        writing.send(name, topics.some(10, chance))
        assert fabric.run(until="caught-up").exit_code == 0
        topics.delete(east, name)
        fabric.forget(name, [name], delete_at_target=True)
    assert name not in topics.names(west)
