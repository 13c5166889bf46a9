"""Aborted data is left out where it cannot be copied exactly: control records take its offsets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation

from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import LaneKey
from isthmus.model.link import Limits
from isthmus.model.naming import TargetTopic
from testing.brokers.acls import CLUSTER, deny, permit
from testing.brokers.hanging import trusting
from testing.records import oracle, topics
from testing.records.omission import assert_left_out
from testing.records.transactions import TransactionalProducer, abort, coordinated, has_lone_producers, interleave
from testing.runs.mirror import Mirror, caught_up, reached

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
AUTO, COPY, OMIT = AbortedPolicy.AUTO, AbortedPolicy.COPY, AbortedPolicy.OMIT
MANY: Final = 12_345
MIXED: Final = 600


@pytest.mark.parametrize("aborted", [OMIT, AUTO])
def test_interleaved_transactions(
    mirror: Mirror, topic: TopicNamer, chance: random.Random, aborted: AbortedPolicy
) -> None:
    """Where brokers ask coordinators aborted records are left out among committed and plain ones; offsets stay."""
    name = topic(aborted)
    topics.create_both(mirror.source, mirror.target, name, partitions=2)
    abort(mirror.source, name, topics.some(7, chance), f"{name}-first")
    interleave(mirror.source, name, chance, steps=200, partitions=2)

    mirror.copy(name, aborted=aborted)

    assert assert_left_out(mirror.source, mirror.target, name, partitions=2) > 0
    assert f"isthmus.test.{name}" not in coordinated(mirror.target)


def test_copied_where_brokers_do_not_ask(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """`auto` copies aborted records as long as that is exact, and leaves out those that come later."""
    name = topic("asked")
    topics.create_both(mirror.source, mirror.target, name)
    abort(mirror.source, name, topics.some(20, chance), f"{name}-copied")
    with trusting(mirror.target):
        mirror.copy(name, aborted=AUTO)
    oracle.assert_same(mirror.source, mirror.target, name)
    assert has_lone_producers(mirror.target, name)

    async def scenario() -> None:
        async with mirror.running(name, aborted=AUTO) as running:
            with trusting(mirror.target):
                await running.until(caught_up)
            abort(mirror.source, name, topics.some(30, chance), f"{name}-left-out")
            topics.produce(mirror.source, name, topics.some(1, chance))
            await running.until(reached(20 + 1 + 30 + 1 + 1))

    asyncio.run(scenario())
    oracle.assert_same(mirror.source, mirror.target, name, isolations=["read_committed"])
    seen = oracle.records(mirror.target.admin_bootstrap_servers, name, "read_uncommitted")[0]
    assert [record.offset for record in seen] == [*range(20), 52]


def test_crashes_among_aborted_data(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Engines that are cut off within aborted data, and know nothing of one another, go on where the log ends."""
    name = topic("cut")
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=120, producers=2)
    abort(mirror.source, name, topics.some(3_000, chance), f"{name}-large")

    mirror.copy_with_crashes(name, chance, crashes=6, aborted=OMIT)

    assert assert_left_out(mirror.source, mirror.target, name) >= 3_000


@pytest.mark.parametrize("is_trusting", [True, False], ids=["alone", "coordinator"])
def test_setting_changed_within_a_transaction(
    mirror: Mirror, topic: TopicNamer, chance: random.Random, is_trusting: bool
) -> None:
    """A transaction that one setting left open is ended by the other, and what follows is as that one has it."""
    name = topic("changed")
    topics.create_both(mirror.source, mirror.target, name)
    abort(mirror.source, name, topics.some(MIXED, chance, value_bytes=20_000), f"{name}-id", batch_num_messages=1)
    interleave(mirror.source, name, chance, steps=40)

    # An answer of the source has some five of these records, and the next one waits for a second.
    slow = {"limits": Limits(bytes_per_s=100_000)}
    position = 0
    for aborted in (COPY, OMIT, COPY, OMIT, COPY):
        with trusting(mirror.target) if is_trusting else nullcontext():
            reports = mirror.copy(name, until=reached(position + 1), engine=slow, aborted=aborted)
        position = reports[LaneKey(TargetTopic(name), 0)].position
    assert position < MIXED
    mirror.forget()
    mirror.copy(name, aborted=OMIT)

    oracle.assert_same(mirror.source, mirror.target, name, isolations=["read_committed"])
    seen = oracle.ends(mirror.target.admin_bootstrap_servers, name)
    assert seen == oracle.ends(mirror.source.admin_bootstrap_servers, name)
    assert seen.stable == seen.high
    copied = oracle.records(mirror.target.admin_bootstrap_servers, name, "read_uncommitted")[0]
    assert 0 < sum(record.offset < MIXED for record in copied) < MIXED
    given = oracle.records(mirror.source.admin_bootstrap_servers, name, "read_uncommitted")[0]
    assert {record.offset: record for record in given}.items() >= {record.offset: record for record in copied}.items()


def test_long_transaction_takes_few_requests(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A transaction of many batches is left out whole, with what interleaves it kept."""
    name = topic("long")
    topics.create_both(mirror.source, mirror.target, name)
    writing = TransactionalProducer(mirror.source, f"{name}-id", batch_num_messages=100)
    given = topics.some(MANY, chance, value_bytes=20)
    writing.send(name, given[: MANY // 2])
    topics.produce(mirror.source, name, topics.some(1, chance))
    writing.send(name, given[MANY // 2 :])
    writing.end(commit=False)

    mirror.copy(name, aborted=OMIT)

    assert assert_left_out(mirror.source, mirror.target, name) == MANY


def test_stamps_of_the_log(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Batches that would have to be rebuilt, for their stamps or their size, are left out as they are."""
    name = topic("stamped")
    topics.create(mirror.source, name, message_timestamp_type="LogAppendTime")
    topics.create(mirror.target, name)
    writing = TransactionalProducer(mirror.source, f"{name}-id")
    for commit in (False, True, False):
        writing.send(name, topics.some(300, chance))
        writing.end(commit=commit)

    mirror.copy(name, aborted=OMIT, batch_bytes_max=4_096)

    oracle.assert_same(mirror.source, mirror.target, name, isolations=["read_committed"], same_timestamp_type=False)
    seen = oracle.records(mirror.target.admin_bootstrap_servers, name, "read_uncommitted")[0]
    assert [record.offset for record in seen] == list(range(301, 601))


def test_without_the_right_to_write_control_records(
    east: LocalCluster, guarded: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Then `auto` copies, by a coordinator, and `omit` has coordinators write the control records; both arrive."""
    names = [topic(aborted) for aborted in (AUTO, OMIT)]
    mirror = Mirror(east, guarded)
    for name, aborted in zip(names, (AUTO, OMIT), strict=True):
        topics.create_both(east, guarded, name)
        interleave(east, name, chance, steps=40, producers=2)
        abort(east, name, topics.some(5, chance), f"{name}-last")
        mirror.copy_with_crashes(name, chance, crashes=2, aborted=aborted)
    oracle.assert_same(east, guarded, names[0])
    assert assert_left_out(east, guarded, names[1]) >= 5

    permit(guarded, *CLUSTER, AclOperation.ALTER)
    try:
        abort(east, names[0], topics.some(6, chance), f"{names[0]}-granted")
        mirror.copy(names[0], aborted=AUTO)
    finally:
        deny(guarded, *CLUSTER, AclOperation.ALTER)
    oracle.assert_same(east, guarded, names[0], isolations=["read_committed"])
