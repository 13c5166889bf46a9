"""Transactional topics look the same on both sides, whether a consumer reads committed records only or all of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from isthmus.local import LocalCluster
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer, end_without_data, interleave
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_interleaved_transactions(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Commits and aborts of several producers end at the same offsets, and LSO and log end agree."""
    name = topic("interleaved")
    topics.create_both(mirror.source, mirror.target, name, partitions=2)
    interleave(mirror.source, name, chance, steps=120, partitions=2)

    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name, partitions=2)
    for partition in (0, 1):
        seen = oracle.ends(mirror.target.bootstrap_servers, name, partition)
        assert seen.stable == seen.high


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_markers_without_data(mirror: Mirror, topic: TopicNamer, chance: random.Random, commit: bool) -> None:
    """The control record of a producer that wrote nothing here takes its offset all the same."""
    name = topic("nothing")
    topics.create_both(mirror.source, mirror.target, name)
    end_without_data(mirror.source, name, commit=commit)
    topics.produce(mirror.source, name, topics.some(5, chance))
    end_without_data(mirror.source, name, commit=commit)

    mirror.copy(name)

    assert oracle.ends(mirror.target.bootstrap_servers, name).high == 7
    assert oracle.assert_same(mirror.source, mirror.target, name) == 5


def test_open_transaction_holds_the_mirror_back(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """What lies behind an open transaction is copied when it ends, and not before."""
    name = topic("open")
    topics.create_both(mirror.source, mirror.target, name)
    first, second = (TransactionalProducer(mirror.source, f"{name}-{n}") for n in range(2))
    topics.produce(mirror.source, name, topics.some(3, chance))
    first.send(name, topics.some(4, chance))
    second.send(name, topics.some(4, chance))
    second.end(commit=False)

    reports = mirror.copy(name)
    assert [report.position for report in reports.values()] == [3]
    first.end(commit=True)
    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name)


def test_crashes_within_transactions(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """An aborted transaction left open by an engine that was cut off is carried on by the next one."""
    name = topic("crashed")
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=80, producers=2)

    mirror.copy_with_crashes(name, chance, crashes=6)

    oracle.assert_same(mirror.source, mirror.target, name)


def test_transactions_without_the_right_to_write_markers(
    east: LocalCluster, guarded: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Without ALTER on the cluster empty transactions take the place of markers, crashes or not."""
    name = topic("guarded")
    topics.create_both(east, guarded, name)
    interleave(east, name, chance, steps=60, producers=2)
    mirror = Mirror(east, guarded)

    mirror.copy_with_crashes(name, chance, crashes=4)

    oracle.assert_same(east, guarded, name)
