"""What a plan says of each partition is what the run that follows finds there, on real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.cluster.local import LocalCluster
from isthmus.control.fabric import Fabric
from isthmus.control.outcome import RunOutcome
from isthmus.control.plan import LinkPlan
from isthmus.model.link import Link
from tests.integration.control.running import configuration_of, ends, link_of
from tests.integration.lane import topics
from tests.integration.lane.topics import Given
from tests.integration.lane.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
States = dict[str, list[str]]


def records(count: int, word: str = "ours") -> list[Given]:
    """Records that tell who wrote them."""
    return [Given(b"%d" % (n % 7), b"%s %d" % (word.encode(), n), [], topics.SEPTEMBER + n) for n in range(count)]


def planned_states(plan: LinkPlan) -> States:
    """The state of each partition, as planned."""
    return {topic["topic"]: topic["states"] for topic in plan.as_dict()["topics"]}


def run_states(outcome: RunOutcome) -> States:
    """The state of each partition, as the run reports it; a topic that was refused as a whole has one for all."""
    (link,) = outcome.links
    return {t.topic: [str(p.state) for p in t.partitions] or [str(t.state)] for t in link.topics}


class Pair:
    """A link whose plan is held against its run."""

    def __init__(self, link: Link, spark: SparkSession) -> None:
        self._fabric = Fabric(configuration_of(link), spark=spark)

    def plan(self) -> LinkPlan:
        """The plan as it is now."""
        (plan,) = self._fabric.plan().links
        return plan

    def run(self) -> RunOutcome:
        """Run until everything is copied that can be."""
        return self._fabric.run(until="caught-up")

    def agree(self) -> tuple[dict[str, Any], RunOutcome]:
        """Plan, then run: both say the same of every partition, and end with the same code. The one topic's plan."""
        plan = self._fabric.plan()
        outcome = self.run()
        (link,) = plan.links
        assert run_states(outcome) == planned_states(link)
        assert plan.exit_code == outcome.exit_code
        assert outcome.records == sum(topic.lag_records for topic in link.topics)
        (topic,) = link.as_dict()["topics"]
        return topic, outcome


@pytest.fixture
def pair(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> Callable[..., tuple[str, Pair]]:
    """Makes a link of one topic that has a name of its own and is not there yet."""

    def made(**settings: Any) -> tuple[str, Pair]:
        name = topic("foreseen")
        return name, Pair(replace(link_of(east.cluster(), west.cluster(), name, name=name), **settings), spark)

    return made


PairMaker = Callable[..., tuple[str, Pair]]


def test_foreign_records(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """A target that somebody else filled is refused, and how to keep what is in it is told."""
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(200))
    topics.produce(west, name, records(99, "theirs"))
    planned, _ = both.agree()
    assert (planned["action"], planned["mode"], planned["records_to_copy"]) == ("refuse", "refused", 0)
    (refused,) = planned["refused_partitions"]
    assert refused["state"] == "FOREIGN_WRITE"
    assert f"isthmus verify --topic {name}" in refused["hint"]
    assert asyncio.run(ends(west, name)) == [99]


def test_foreign_record_behind_ours(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """One record of somebody else behind what was copied is found by what it holds."""
    name, both = pair()
    topics.create(east, name)
    topics.produce(east, name, records(50))
    both.run()
    topics.produce(east, name, records(50))
    topics.produce(west, name, records(1, "theirs"))
    planned, _ = both.agree()
    assert planned["states"] == ["FOREIGN_WRITE"]


def test_target_that_is_longer(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """What lies beyond the source's end is told by offsets, counted, and a command is named that keeps it."""
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(10))
    topics.produce(west, name, records(15, "theirs"))
    planned, _ = both.agree()
    (refused,) = planned["refused_partitions"]
    assert refused["state"] == "DIVERGED"
    assert "[10, 15)" in refused["message"]
    assert "at most 5 records" in refused["hint"]
    assert f"--topic {name} --partition 0 --offset 10 --max-messages 5" in refused["hint"]


def test_target_beyond_what_is_stable(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """What the source holds in a transaction that is still open cannot have been copied."""
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(10))
    producer = TransactionalProducer(east, f"{name}-id")
    producer.send(name, records(20))
    topics.produce(west, name, records(15, "theirs"))
    planned, _ = both.agree()
    assert planned["states"] == ["DIVERGED"]
    producer.end(commit=False)


def overtaken(east: LocalCluster, name: str, both: Pair) -> None:
    """Copy 30 records, then let the source have 100 of which the first 57 are deleted."""
    topics.create(east, name)
    topics.produce(east, name, records(30))
    both.run()
    topics.produce(east, name, records(70))
    topics.delete_records(east, name, 57)


def test_gap_that_stops(east: LocalCluster, pair: PairMaker) -> None:
    """What the source deleted before it was copied stops the partition: nothing is planned to be copied of it."""
    name, both = pair()
    overtaken(east, name, both)
    planned, _ = both.agree()
    (refused,) = planned["refused_partitions"]
    assert refused["state"] == "DATA_GAP"
    assert "[30, 57)" in refused["message"]
    assert "at most 30 records" in refused["hint"]
    assert (planned["records_to_copy"], planned["offsets_to_fill"]) == (0, 0)


def test_gap_that_is_passed(east: LocalCluster, pair: PairMaker) -> None:
    """A link that goes on after gaps is planned to, with the offsets that will be missing."""
    name, both = pair(on_data_gap="continue")
    overtaken(east, name, both)
    planned, _ = both.agree()
    assert planned["gaps"] == [{"partition": 0, "offset_begin": 30, "offset_end": 57}]
    assert (planned["records_to_copy"], planned["offsets_to_fill"]) == (43, 27)
    assert "[30, 57)" in planned["notes"][0]["message"]


def test_prefix_that_is_being_filled(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """A target that begins with fillers has no gap: filling goes on."""
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(300))
    topics.delete_records(east, name, 200)
    topics.fill(west, name, 120)
    planned, _ = both.agree()
    assert (planned["states"], planned["gaps"]) == (["ACTIVE"], [])
    assert (planned["records_to_copy"], planned["offsets_to_fill"]) == (100, 80)


def test_some_partitions_only(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """One partition that cannot be copied keeps no other from it, and only those are counted."""
    name, both = pair()
    topics.create_both(east, west, name, partitions=3)
    for partition in range(3):
        topics.produce(east, name, records(10), partition=partition)
    topics.produce(west, name, records(3, "theirs"), partition=1)
    planned, _ = both.agree()
    assert (planned["action"], planned["mode"], planned["records_to_copy"]) == ("copy", "identity", 20)
    assert planned["states"] == ["ACTIVE", "FOREIGN_WRITE", "ACTIVE"]


def test_source_topic_of_the_same_name(east: LocalCluster, pair: PairMaker) -> None:
    """A source topic that was created again is refused by both, and what its mirror alone still holds is counted."""
    name, both = pair()
    topics.create(east, name)
    topics.produce(east, name, records(10))
    both.run()
    topics.delete(east, name)
    topics.create(east, name)
    topics.produce(east, name, records(5))
    planned, _ = both.agree()
    assert planned["states"] == ["TOPIC_RECREATED"]
    assert "at most 10 records" in planned["reasons"][0]["hint"]


def test_copied_topic(east: LocalCluster, pair: PairMaker) -> None:
    """What was copied is found to be a copy, and only what has come since is to be copied."""
    name, both = pair()
    topics.create(east, name)
    topics.produce(east, name, records(10))
    both.agree()
    topics.produce(east, name, records(5))
    planned, _ = both.agree()
    assert (planned["states"], planned["records_to_copy"]) == (["ACTIVE"], 5)
