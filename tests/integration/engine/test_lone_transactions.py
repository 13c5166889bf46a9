"""Aborted transactions where the target's brokers do not ask a coordinator: Isthmus begins and ends them itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
from confluent_kafka.admin import AclOperation

from isthmus.fabric.fabric import Administration
from isthmus.local import LocalCluster
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.transactions import TransactionState
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.brokers.acls import CLUSTER, denied, deny, permit
from testing.brokers.hanging import trusting
from testing.patience import UNFENCED
from testing.records import oracle, topics
from testing.records.transactions import (
    LARGE,
    abort,
    abort_large,
    coordinated,
    has_lone_producers,
    interleave,
)
from testing.runs.mirror import Mirror, all_are, reached

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.fixture(scope="module")
def unverified() -> Iterator[LocalCluster]:
    """A cluster whose brokers take records of transactions that no coordinator knows."""
    properties = {"transaction.partition.verification.enable": "false"}
    with LocalCluster.start("unverified", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        yield cluster


def test_no_coordinator_takes_part(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Engines that are cut off go on with each other's open transactions, and no coordinator hears of any."""
    name = topic("alone")
    topics.create_both(east, unverified, name)
    interleave(east, name, chance, steps=120)

    Mirror(east, unverified).copy_with_crashes(name, chance, crashes=6)

    oracle.assert_same(east, unverified, name)
    assert has_lone_producers(unverified, name)
    assert name not in coordinated(unverified)


def test_verification_turned_on_and_off(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Whichever way a transaction was begun, it is ended, also if the brokers begin or cease to ask coordinators."""
    name = topic("turned")
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=160, producers=2)
    end = oracle.ends(mirror.source.admin_bootstrap_servers, name).stable

    for step, offset in enumerate(sorted(chance.sample(range(end), 8))):
        with trusting(mirror.target) if step % 2 else nullcontext():
            mirror.copy(name, until=reached(offset))
    mirror.copy(name)
    # By chance all that were aborted may have begun while it was on, or while it was off.
    for step in range(2):
        abort(mirror.source, name, topics.some(3, chance), f"{name}-last-{step}")
        with trusting(mirror.target) if step % 2 else nullcontext():
            mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name)
    assert has_lone_producers(mirror.target, name)
    assert f"isthmus.test.{name}" in coordinated(mirror.target)


def test_right_to_end_it_is_lost(
    east: LocalCluster, guarded: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A transaction that nobody else can end waits for the right to end it, and nothing is put in its place."""
    name = topic("revoked")
    topics.create_both(east, guarded, name)
    abort_large(east, name, chance)
    mirror = Mirror(east, guarded)

    with trusting(guarded):
        permit(guarded, *CLUSTER, AclOperation.ALTER)
        assert mirror.copy(name, until=reached(50))[LaneKey(TargetTopic(name), 0)].position < LARGE
        assert has_lone_producers(guarded, name)
        with denied(guarded, *CLUSTER, AclOperation.ALTER):
            mirror.copy(name, until=all_are(LaneState.NOT_AUTHORIZED))
            assert oracle.ends(guarded.admin_bootstrap_servers, name) == oracle.Ends(0, 0, LARGE)
        mirror.copy(name)
        deny(guarded, *CLUSTER, AclOperation.ALTER)

    oracle.assert_same(east, guarded, name)


def test_open_transaction_of_a_stopped_link_is_told_and_lasts(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """A link that stops within a transaction leaves it open; it is told as the mirror's, and ends when that goes on."""
    name = topic("lasting")
    topics.create_both(east, unverified, name)
    abort_large(east, name, chance)
    mirror = Mirror(east, unverified)

    assert mirror.copy(name, until=reached(50))[LaneKey(TargetTopic(name), 0)].position < LARGE
    report = Administration(unverified.cluster()).topics([name])
    (transaction,) = report.transactions
    assert (transaction.state, transaction.first_offset) == (TransactionState.MIRRORED, 0)
    assert [(finding.level, finding.check) for finding in report.findings] == [(Level.WARN, "open transaction")]
    mirror.forget()
    mirror.copy(name)

    oracle.assert_same(east, unverified, name)
    assert Administration(unverified.cluster()).topics([name]).transactions == ()
