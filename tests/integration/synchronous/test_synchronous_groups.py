"""Groups of a synchronous link as their users have them: declared, run, with a gateway before the source."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.model.links.pair import PairState
from isthmus.model.namespace import Namespace
from testing.brokers.proxy import HOST
from testing.groups import consumers
from testing.links.synchronous import Trial, begun, gateway, run_beside
from testing.patience import TERM_S
from testing.verbs import Promoter

pytestmark = pytest.mark.integration

MANY = 800
LASTING_S = 8.0


def at_follower(trial: Trial, group: str) -> list[int]:
    """Where a group is there."""

    async def story() -> list[int]:
        async with Client(trial.direct.cluster("guarded")) as client:
            answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
            found = answers.values
            return [each.offset for each in found[group].values()]

    return asyncio.run(story())


def test_a_group_that_reads_again_after_it_was_ahead_at_the_follower(
    east: LocalCluster, guarded: LocalCluster, spark: SparkSession
) -> None:
    """What it commits, in transactions too, is answered, and a failover has it go on from there."""
    trial = begun("ahead", east, guarded, has_groups=True)
    group = f"{trial.name}.group"
    direct = Producer({"bootstrap.servers": east.bootstrap_servers})
    for _ in range(120):
        direct.produce(trial.topic, b"value", partition=0)
    assert direct.flush(TERM_S) == 0

    def scenario() -> None:
        trial.stands(PairState.FOLLOWING)
        consumers.commit(guarded, {group: {(trial.topic, 0): 100}})
        for kind in ("topic", "group"):
            space = Namespace.of(f"{trial.name}.", kind)
            trial.fabric.cluster("guarded").namespaces.enforce(space, super_user=True)
        with gateway(trial.direct) as side:
            trial.mode("sync")
            trial.stands(PairState.IN_SYNC)
            commits(trial, f"{HOST}:{side.port}", group)
            asyncio.run(Promoter(configuration=trial.direct, name=trial.name).failover())
        assert at_follower(trial, group) == [40]

    run_beside(trial, spark, scenario, trial.direct)


def commits(trial: Trial, servers: str, group: str) -> None:
    """A position, and another one in a transaction."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    assert [one.error for one in consumer.commit(offsets=[at(trial, 50)], asynchronous=False)] == [None]
    assert at_follower(trial, group) == [50]
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group})
    producer.init_transactions(TERM_S)
    producer.begin_transaction()
    producer.produce(trial.topic, b"value", partition=0)
    producer.send_offsets_to_transaction([at(trial, 40)], consumer.consumer_group_metadata(), TERM_S)
    producer.commit_transaction(TERM_S)
    assert at_follower(trial, group) == [40]
    consumer.close()


def at(trial: Trial, offset: int) -> TopicPartition:
    """A place in the topic."""
    return TopicPartition(trial.topic, 0, offset)


def test_who_commits_all_the_time_is_answered(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> None:
    """Both sides are equal at no moment then: each commit is answered once the follower has come as far, or further."""
    trial = begun("busy", east, guarded, has_groups=True)
    group = f"{trial.name}.group"
    direct = Producer({"bootstrap.servers": east.bootstrap_servers})
    for _ in range(MANY):
        direct.produce(trial.topic, b"value", partition=0)
    assert direct.flush(TERM_S) == 0

    def scenario() -> None:
        trial.stands(PairState.FOLLOWING)
        for kind in ("topic", "group"):
            space = Namespace.of(f"{trial.name}.", kind)
            trial.fabric.cluster("guarded").namespaces.enforce(space, super_user=True)
        with gateway(trial.direct) as side:
            trial.mode("sync")
            trial.stands(PairState.IN_SYNC)
            told = list[int]()
            consumer = Consumer(
                {
                    "bootstrap.servers": f"{HOST}:{side.port}",
                    "group.id": group,
                    "enable.auto.commit": False,
                    "on_commit": lambda error, _: told.append(0 if error is None else error.code()),
                }
            )
            begun_at = time.monotonic()
            for offset in range(1, MANY + 1):
                consumer.commit(offsets=[at(trial, offset)], asynchronous=True)
                # For longer than a commit is waited for, and more often than positions are carried.
                while time.monotonic() < begun_at + offset * LASTING_S / MANY:
                    consumer.poll(0.001)
            deadline = time.monotonic() + TERM_S
            while len(told) < MANY and time.monotonic() < deadline:
                consumer.poll(0.1)
            consumer.close()
            assert told == [0] * MANY
            assert at_follower(trial, group) == [MANY]
            trial.mode("async")

    run_beside(trial, spark, scenario, trial.direct)
