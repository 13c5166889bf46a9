"""A broker that fails and comes back, as the findings tell it, with Kafka's own tools as the witness."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka import Producer

from isthmus.fabric.fabric import Administration
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.kafka.consumption import GroupReport
from isthmus.model.kafka.elections import ElectionOutcome
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.group import offsets_partition
from isthmus.model.kafka.partitions import Condition, PartitionState
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import create

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
VICTIM: Final = 2
LISTED: Final = re.compile(r"Topic: (\S+)\s+Partition: (\d+)")


def listed(cluster: LocalCluster, option: str, names: list[str]) -> set[tuple[str, int]]:
    """The partitions of these topics that kafka-topics lists with an option."""
    told = kafka_tool(
        *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.admin_bootstrap_servers),
        *("--describe", option),
    )
    assert told.returncode == 0, told.stderr
    return {(name, int(number)) for name, number in LISTED.findall(told.stdout) if name in names}


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the cluster needs a moment for."""
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def suffering(partitions: tuple[PartitionState, ...], *conditions: Condition) -> set[tuple[str, int]]:
    """The partitions that have one of these conditions."""
    return {(p.topic, p.partition) for p in partitions if set(conditions) & set(p.conditions)}


def test_broker_that_fails_and_comes_back(east3: LocalCluster, topic: TopicNamer) -> None:
    """What is under-replicated, under min-ISR or offline is what kafka-topics lists; then leaders are elected back."""
    safe, tight, alone = names = [topic(stem) for stem in ("safe", "tight", "alone")]
    others = [node for node in (1, 2, 3) if node != VICTIM]
    of_safe = [[VICTIM, *others], [others[0], VICTIM, others[1]], [*others, VICTIM]]
    create(east3, safe, assigned=of_safe, min_insync_replicas=2)
    create(east3, tight, assigned=[[VICTIM, others[0]], [others[0], VICTIM], others], min_insync_replicas=2)
    create(east3, alone, assigned=[[VICTIM], others[:1]], min_insync_replicas=1)
    known = Administration(east3.cluster())
    until(lambda: known.topics(names).findings == ())

    east3.broker(VICTIM).kill()
    try:
        until(lambda: suffering(known.topics([alone]).partitions, Condition.OFFLINE) == {(alone, 0)})
        until(lambda: len(suffering(known.topics([safe]).partitions, Condition.UNDER_REPLICATED)) == 3)
        _assert_as_told(east3, names, known)
        checks = {(f.subject.split("/")[1], f.check) for f in known.topics(names).findings}
        assert checks == {
            (safe, "under-replicated"),
            (safe, "leader-not-preferred"),
            (tight, "under-min-isr"),
            (tight, "under-replicated"),
            (tight, "leader-not-preferred"),
            (alone, "offline"),
        }
        _assert_acks(east3, tight, known)
        (refused, *_) = known.elect_leaders([safe])
        assert refused.outcome is ElectionOutcome.NOT_POSSIBLE
        until(lambda: {"brokers", "quorum"} <= {finding.check for finding in known.describe().findings})
    finally:
        east3.broker(VICTIM).start()
    until(lambda: not suffering(known.topics(names).partitions, Condition.UNDER_REPLICATED, Condition.OFFLINE))
    _assert_elections(known, safe)


def _assert_as_told(cluster: LocalCluster, names: list[str], known: Administration) -> None:
    partitions = known.topics(names).partitions
    offline = suffering(partitions, Condition.OFFLINE)
    # Kafka's tool counts an offline partition as everything.
    short = suffering(partitions, Condition.UNDER_MIN_ISR, Condition.TOO_FEW_REPLICAS)
    assert listed(cluster, "--unavailable-partitions", names) == offline
    assert listed(cluster, "--under-min-isr-partitions", names) == short | offline
    under_replicated = listed(cluster, "--under-replicated-partitions", names)
    assert under_replicated - offline == suffering(partitions, Condition.UNDER_REPLICATED)


def _assert_acks(cluster: LocalCluster, name: str, known: Administration) -> None:
    """Below min.insync.replicas acks=all is refused; records with less are taken, and shown to nobody (KIP-966)."""
    outcomes: dict[str, object] = {}
    for acks in ("0", "1", "all"):
        timeout_ms = 2000 if acks == "all" else 60_000
        settings = {"bootstrap.servers": cluster.admin_bootstrap_servers, "acks": acks}
        producer = Producer({**settings, "message.timeout.ms": timeout_ms})

        def delivered(error: object, _: object, acks: str = acks) -> None:
            outcomes[acks] = error

        producer.produce(name, b"x", partition=1, on_delivery=delivered)
        producer.flush(TERM_S)
    assert (outcomes["0"], outcomes["1"]) == (None, None)
    assert outcomes["all"] is not None
    (partition,) = [p for p in known.topics([name]).partitions if p.partition == 1]
    assert (partition.conditions[0], partition.high_watermark) == (Condition.UNDER_MIN_ISR, 0)


def _assert_elections(known: Administration, name: str) -> None:
    """An election is planned, held, and not needed a second time."""
    (planned, *rest) = known.elect_leaders([name], dry_run=True)
    assert (planned.partition, planned.preferred, planned.outcome) == (0, VICTIM, ElectionOutcome.PENDING)
    assert {election.outcome for election in rest} == {ElectionOutcome.NOT_NEEDED}
    (elected, *_) = known.elect_leaders([name])
    assert elected.outcome is ElectionOutcome.ELECTED
    until(lambda: not suffering(known.topics([name]).partitions, Condition.NOT_PREFERRED))
    assert {election.outcome for election in known.elect_leaders([name])} == {ElectionOutcome.NOT_NEEDED}


def test_coordinator_that_fails_is_followed(east3: LocalCluster, topic: TopicNamer) -> None:
    """While a group's coordinator moves the group is told with the problem, and then by its next coordinator."""
    name, group = topic("led"), topic("group")
    known = Administration(east3.cluster())
    create(east3, name, assigned=[[1, 2, 3]], min_insync_replicas=2)
    until(lambda: known.topics([name]).findings == ())
    consumers.commit(east3, {group: {(name, 0): 0}})
    (before,) = known.groups([group]).groups
    assert before.description is not None
    partitions = len(east3.brokers)
    others = (topic("other") for _ in itertools.count())
    other = next(one for one in others if offsets_partition(one, partitions) == before.description.offsets_partition)

    told: list[GroupReport] = []

    def is_told() -> bool:
        (asked,) = known.groups([group]).groups
        told.append(asked)
        # One look waits a bounded time for a coordinator; the cluster may need longer to name another.
        assert asked.description is not None or asked.problem is not None
        if asked.description is not None and asked.problem is not None:
            # The high watermark moved between the coordinator's loading of the log and its listening: Kafka tells the
            # last commits when it moves again, which only another commit makes it do. One of a hundred runs, or two.
            consumers.commit(east3, {other: {(name, 0): 0}})
        return asked.description is not None and asked.problem is None

    east3.broker(before.description.coordinator).kill()
    try:
        until(is_told)
        after = told[-1]
        assert after.description is not None
        assert after.description.coordinator != before.description.coordinator
        assert after.description.offsets_partition == before.description.offsets_partition
        assert [(position.topic, position.committed) for position in after.positions] == [(name, 0)]
    finally:
        east3.broker(before.description.coordinator).start()


def test_controllers_without_a_majority(east3: LocalCluster) -> None:
    """With two of three controllers gone nobody leads: that is an error, and what the last broker tells is told."""
    known, deadline = Administration(east3.cluster()), time.monotonic() + TERM_S
    try:
        for node in (2, 3):
            east3.broker(node).kill()
        # A leader that has lost its followers notices after a while.
        while "leaders cannot change" not in str((report := known.describe()).findings):
            assert time.monotonic() < deadline
        assert {f.level for f in report.findings if f.check == "quorum"} == {Level.ERROR}
        assert "quorum" in report.not_told
        assert 1 in {broker.node_id for broker in report.brokers}
    finally:
        for node in (2, 3):
            east3.broker(node).start(wait=False)
        east3.wait_until_ready()
