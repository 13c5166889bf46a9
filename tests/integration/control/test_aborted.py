"""What becomes of aborted records: told before, while and after a run, and judged by a verification."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from isthmus.control.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.link import Link, Transactions
from isthmus.model.transactions import AbortedPolicy
from tests.integration.cluster.hanging import trusting
from tests.integration.control.running import configuration_of, link_of
from tests.integration.lane import oracle, topics
from tests.integration.lane.test_omission import assert_left_out
from tests.integration.lane.transactions import TransactionalProducer, interleave

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
    assert progress.as_dict()["aborted"] == "omit"
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
