"""What a plan says of each partition is what the run that follows finds there, on real brokers."""

from __future__ import annotations

import asyncio
import random
import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log import tail
from isthmus.kafka.log.fetch import fetch_once
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.outcomes import Outcomes
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.progress import LinkProgress
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.process.timings import USUAL, Timings
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain
from isthmus.topics import foresight
from isthmus.topics.plan import LinkPlan
from testing.brokers.acls import denied
from testing.groups import consumers
from testing.records import topics
from testing.records.topics import Given
from testing.records.transactions import TransactionalProducer
from testing.records.trickle import trickling
from testing.runs.running import configuration_of, ends, link_of, patient, running
from testing.verbs import examine

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
States = dict[str, list[str]]
SOON = patient(stuck_s=1.0)
"""A run that is to catch up waits a second for somebody to act, not half a minute."""


def records(count: int, word: str = "ours") -> list[Given]:
    """Records that tell who wrote them."""
    return [Given(b"%d" % (n % 7), b"%s %d" % (word.encode(), n), [], topics.SEPTEMBER + n) for n in range(count)]


def planned_states(plan: LinkPlan) -> States:
    """The state of each partition, as planned."""
    return {topic["topic"]: topic["states"] for topic in plain(plan)["topics"]}


def run_states(links: tuple[LinkProgress, ...]) -> States:
    """The state of each partition, as the run reports it; a topic that was refused as a whole has one for all."""
    (link,) = links
    return {t.topic: [str(p.state) for p in t.partitions] or [str(t.state)] for t in link.topics}


def mapped(link: Link) -> Link:
    """The link with mapped offsets."""
    return replace(link, topics=replace(link.topics, offsets=OffsetPolicy.MAPPED))


class Pair:
    """A link whose plan is held against its run."""

    def __init__(self, link: Link, spark: SparkSession, timings: Timings = USUAL) -> None:
        self.link, self._spark = link, spark
        self._fabric = Fabric(replace(configuration_of(link), timings=timings), spark=spark)
        self.last: tuple[LinkProgress, ...] = ()

    def like(self, link: Link) -> Pair:
        """The same with other settings of the link."""
        return Pair(link, self._spark)

    def plan(self) -> LinkPlan:
        """The plan as it is now."""
        (plan,) = self._fabric.plan().links
        return plan

    def run(self) -> RunOutcome:
        """Run until everything is copied that can be; `last` is what was reported before the end."""

        def seen(links: tuple[LinkProgress, ...]) -> None:
            self.last = links

        return self._fabric.run(until="caught-up", on_progress=seen)

    def agree(self) -> tuple[dict[str, Any], RunOutcome]:
        """Plan, then run: both say the same of every partition, and end with the same code. The one topic's plan."""
        plan = self._fabric.plan()
        outcome = self.run()
        (link,) = plan.links
        assert run_states(self.last) == planned_states(link)
        assert plan.exit_code == outcome.exit_code
        assert outcome.records == sum(topic.lag_records for topic in link.topics)
        (topic,) = plain(link)["topics"]
        return topic, outcome

    def doctor(self) -> set[tuple[Level, str]]:
        """What the doctor finds wrong with the link's topics and patterns."""
        found = asyncio.run(examine(configuration_of(self.link)))
        checks = ("preflight", "divergence", "patterns")
        return {(finding.level, finding.message) for finding in found if finding.check in checks}


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
    assert both.doctor() == {(Level.ERROR, f"partition 0: {refused['message']}")}
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
    """What somebody else wrote beyond the source's end is told by offsets, counted, and a command is named that keeps
    it.
    """
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(10))
    topics.produce(west, name, records(15, "theirs"))
    planned, _ = both.agree()
    (refused,) = planned["refused_partitions"]
    assert refused["state"] == "FOREIGN_WRITE"
    assert "[10, 15)" in refused["message"]
    assert "at most 5 records" in refused["hint"]
    assert [line.rpartition("\t")[2] for line in set_aside(refused["hint"])] == [f"theirs {n}" for n in range(10, 15)]


def set_aside(hint: str) -> list[str]:
    """What the command that a hint names writes into its file: Kafka's own console consumer runs it."""
    (command,) = re.findall(r"`kafka-console-consumer (.*) > [^`]*`", hint)
    done = kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *shlex.split(command))
    assert done.returncode == 0, done.stderr
    # Newer ones would rather be told otherwise, which older ones do not understand.
    return [line for line in done.stdout.splitlines() if not line.startswith("Option --property is deprecated")]


def test_target_beyond_what_is_stable(east: LocalCluster, west: LocalCluster, pair: PairMaker) -> None:
    """What the source holds in a transaction that is still open cannot have been copied."""
    name, both = pair()
    topics.create_both(east, west, name)
    topics.produce(east, name, records(10))
    producer = TransactionalProducer(east, f"{name}-id")
    producer.send(name, records(20))
    topics.produce(west, name, records(15, "theirs"))
    planned, _ = both.agree()
    assert planned["states"] == ["FOREIGN_WRITE"]
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
    assert len(set_aside(refused["hint"])) == 30
    assert (planned["records_to_copy"], planned["offsets_to_fill"]) == (0, 0)


def test_gap_that_is_passed(east: LocalCluster, pair: PairMaker) -> None:
    """A link that goes on after gaps is planned to, with the offsets that will be missing."""
    name, both = pair(on_data_gap="continue")
    overtaken(east, name, both)
    planned, _ = both.agree()
    assert planned["gaps"] == [{"partition": 0, "offset_begin": 30, "offset_end": 57}]
    assert (planned["records_to_copy"], planned["offsets_to_fill"]) == (43, 27)
    assert "[30, 57)" in planned["notes"][0]["message"]


def test_gap_that_will_be_passed_is_a_warning(east: LocalCluster, pair: PairMaker) -> None:
    """The doctor tells it as the plan does."""
    name, both = pair(on_data_gap="continue")
    overtaken(east, name, both)
    ((level, message),) = both.doctor()
    assert (level, "partition 0: offsets [30, 57) will be missing" in message) == (Level.WARN, True)


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


def test_link_that_runs(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, pair: PairMaker, chance: random.Random
) -> None:
    """While a controller copies, what it wrote in the very moment is found to be its own."""
    name, both = pair()
    topics.create(east, name, partitions=2)
    configuration = configuration_of(both.link)

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            with trickling(east, name, chance, partitions=2):
                await run.until(lambda: copied(1))
                for _ in range(5):
                    plan = await asyncio.to_thread(both.plan)
                    assert planned_states(plan) == {name: ["ACTIVE", "ACTIVE"]}
                    assert not plan.has_refusals

    async def copied(records: int) -> bool:
        return min(await ends(west, name, partitions=2)) >= records

    asyncio.run(scenario())


def test_patterns_that_match_nothing(
    east: LocalCluster,
    west: LocalCluster,
    spark: SparkSession,
    topic: TopicNamer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Plan, doctor and run warn of each pattern, with the name it may have been meant for; none of them fails."""
    stem = topic("orders")
    name, group = f"{stem}.eu", f"billing-{stem}"
    topics.create(east, name)
    topics.produce(east, name, records(3))
    consumers.commit(east, {group: {(name, 0): 3}})
    include = tuple(TopicPattern.parse(text) for text in (f"{stem}.e*", f"{stem[:-1]}x.*", "/no-such-[a-z]+/"))
    groups = tuple(GroupPattern.parse(text) for text in (group, f"biling-{stem}*"))
    link = replace(
        link_of(east.cluster(), west.cluster(), name, name=stem),
        topics=TopicSettings(include=include),
        groups=GroupSettings(include=groups),
    )
    both = Pair(link, spark)
    expected = {
        f'topics.include "{stem[:-1]}x.*" matches no topic of east': name,
        'topics.include "/no-such-[a-z]+/" matches no topic of east': "",
        f'groups.include "biling-{stem}*" matches no group of east': group,
    }
    told = {problem.message: problem.hint for problem in both.plan().unmatched}
    assert told.keys() == expected.keys()
    assert all(near in told[message] for message, near in expected.items())
    assert {(Level.WARN, message) for message in expected} == both.doctor()
    caplog.clear()
    _, outcome = both.agree()
    assert outcome.exit_code == 0
    said = [record.getMessage() for record in caplog.records]
    for message in expected:
        assert len([line for line in said if line.startswith(f"{stem}: {message}")]) == 1


@pytest.mark.parametrize("copied", [0, 5], ids=["new", "copied in part"])
def test_reading_is_denied(
    secured: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, copied: int
) -> None:
    """A source that may not be read is found before the first byte, whatever the target has already."""
    name = topic("unreadable")
    topics.create_both(secured, west, name)
    topics.produce(secured, name, records(10))
    topics.produce(west, name, records(copied))
    both = Pair(link_of(secured.cluster(), west.cluster(), name, name=name), spark, SOON)
    with denied(secured, ResourceType.TOPIC, name, AclOperation.READ):
        planned, _ = both.agree()
    assert (planned["action"], planned["states"]) == ("refuse", ["NOT_AUTHORIZED"])
    assert f"Grant READ on topic {name}" in planned["refused_partitions"][0]["hint"]


@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.READ])
def test_target_is_denied(
    east: LocalCluster, secured: LocalCluster, spark: SparkSession, topic: TopicNamer, operation: AclOperation
) -> None:
    """A target that may not be written, or not be read where it has to be compared, is found too."""
    name = topic("unwritable")
    topics.create_both(east, secured, name, partitions=2)
    for partition in range(2):
        topics.produce(east, name, records(10), partition=partition)
    topics.produce(secured, name, records(10))
    both = Pair(link_of(east.cluster(), secured.cluster(), name, name=name), spark, SOON)
    with denied(secured, ResourceType.TOPIC, name, operation):
        planned, _ = both.agree()
    # What is equal already needs no writing, what is empty no comparison.
    states = ["ACTIVE", "NOT_AUTHORIZED"] if operation is AclOperation.WRITE else ["NOT_AUTHORIZED", "ACTIVE"]
    assert planned["states"] == states


def test_broker_that_does_not_answer(east: LocalCluster, west3: LocalCluster, topic: TopicNamer) -> None:
    """A frozen leader leaves its partitions unexamined, with the reason, and the plan is done in time."""
    name = topic("silent")
    topics.create(east, name, partitions=3)
    topics.create(west3, name, assigned=[[1], [2], [3]])
    for partition in range(3):
        topics.produce(east, name, records(10), partition=partition)
        topics.produce(west3, name, records(5, "theirs" if partition == 1 else "ours"), partition=partition)
    fabric = Fabric(configuration_of(link_of(east.cluster(), west3.cluster(), name, name=name)))
    broker = west3.broker(3)
    broker.pause()
    try:
        plan = fabric.plan()
    finally:
        broker.resume()
    (link,) = plan.links
    (planned,) = plain(link)["topics"]
    assert planned["states"] == ["ACTIVE", "FOREIGN_WRITE", "TARGET_UNAVAILABLE"]
    (unexamined,) = planned["unexamined_partitions"]
    assert (unexamined["partition"], unexamined["message"] != "") == (2, True)
    assert link.problem is None


def test_many_partitions_take_few_fetches(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last records of 150 partitions come 64 at once, and each is held against its own source."""
    name, count = topic("many"), 150
    topics.create_both(east, west, name, partitions=count)
    for cluster in (east, west):
        writing = topics.producer(cluster)
        for partition in range(count):
            word = "theirs" if cluster is west and partition == 77 else "ours"
            topics.send(writing, name, records(2, word), partition=partition)
        topics.flush(writing)
    asked: list[int] = []
    read_once = fetch_once

    async def counted(connection: Any, wants: Any, **limits: Any) -> Any:
        asked.append(len(wants))
        return await read_once(connection, wants, **limits)

    monkeypatch.setattr(tail, "fetch_once", counted)
    (link,) = Fabric(configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))).plan().links
    (states,) = planned_states(link).values()
    assert [partition for partition, state in enumerate(states) if state == "FOREIGN_WRITE"] == [77]
    assert states.count("ACTIVE") == count - 1
    assert sorted(asked) == [22, 22, 64, 64, 64, 64]


def test_look_that_takes_too_long(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """What was not looked at in time is told as unexamined, and the rest of the plan is there."""
    name = topic("late")
    topics.create_both(east, west, name)
    topics.produce(east, name, records(5))
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))
    plan = Fabric(replace(configuration, timings=patient(look_s=0.0))).plan()
    (link,) = plan.links
    (planned,) = plain(link)["topics"]
    assert (planned["action"], planned["records_to_copy"], link.has_refusals, plan.exit_code) == ("copy", 5, False, 1)
    assert "took longer than" in planned["unexamined_partitions"][0]["message"]


def test_a_lane_that_went_on_between_two_looks(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source deleted what was copied after the target's end was read, and before the source's: that is no gap."""
    name = topic("between")
    topics.create_both(east, west, name)
    for cluster, count in ((east, 10), (west, 5)):
        topics.produce(cluster, name, records(count))
    topics.delete_records(east, name, 3)
    left = [Outcomes({(name, 0): LogRange(0, 2, 2)})]

    async def told(client: Client, keys: Collection[PartitionKey], **options: Any) -> Outcomes[PartitionKey, LogRange]:
        return left.pop() if left and client.cluster.alias == "west" else await log_ranges(client, keys, **options)

    monkeypatch.setattr(foresight, "log_ranges", told)
    plan = Fabric(configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))).plan()
    (link,) = plan.links
    assert (planned_states(link), plan.exit_code, left) == ({name: ["ACTIVE"]}, 0, [])


def test_mapped_target_is_denied(
    east: LocalCluster, secured: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """A mapped topic that is to begin needs no READ at the target; one that was begun is looked for there."""
    name = topic("unseen")
    topics.create_both(east, secured, name)
    topics.produce(secured, name, records(4, "theirs"))
    both = Pair(mapped(link_of(east.cluster(), secured.cluster(), name, name=name)), spark, SOON)
    states = []
    with denied(secured, ResourceType.TOPIC, name, AclOperation.READ):
        for _ in range(2):
            topics.produce(east, name, records(10))
            planned, _ = both.agree()
            states += planned["states"]
    assert states == ["ACTIVE", "NOT_AUTHORIZED"]


def test_mapped_source_has_deleted_too_much(
    east: LocalCluster, pair: Callable[..., tuple[str, Pair]], west: LocalCluster
) -> None:
    """What is missing of a mapped topic is told before it stops the run, or is passed."""
    name, both = pair()
    both = both.like(mapped(both.link))
    topics.create_both(east, west, name)
    topics.produce(west, name, records(4, "theirs"))
    topics.produce(east, name, records(10))
    both.agree()
    topics.produce(east, name, records(10))
    topics.delete_records(east, name, 15)
    planned, _ = both.agree()
    assert (planned["action"], planned["states"]) == ("refuse", ["DATA_GAP"])
    assert "[10, 15)" in planned["refused_partitions"][0]["message"]
    both = both.like(replace(both.link, on_data_gap="continue"))
    planned, _ = both.agree()
    assert (planned["mode"], planned["records_to_copy"], planned["states"]) == ("mapped", 5, ["ACTIVE"])
    assert planned["gaps"] == [{"partition": 0, "offset_begin": 10, "offset_end": 15}]
