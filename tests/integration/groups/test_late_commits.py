"""Commits of ours that a network delivers when their transaction is over: nobody waits for them for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest
from pyspark.sql import SparkSession

from isthmus.groups.transaction import GroupTransaction
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import TargetTopic
from testing.groups import consumers
from testing.groups.carrying import records
from testing.patience import UNFENCED
from testing.records.topics import create, produce
from testing.runs.running import configuration_of, link_of, patient, running

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def trusting() -> Iterator[LocalCluster]:
    """A cluster whose brokers do not ask whether a transaction is there, as all before Kafka 3.6."""
    properties = {"transaction.partition.verification.enable": "false"}
    with LocalCluster.start("trusting", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        yield cluster


async def late(client: Client, link: str, group: str, name: str) -> None:
    """Have a commit of the link's last transaction arrive now."""
    transaction = GroupTransaction(client, link)
    request = DescribeTransactionsRequest(transactional_ids=[transaction.transactional_id])
    answer = await client.coordinator("transaction", transaction.transactional_id, request)
    (state,) = answer.transaction_states
    transaction.producer_id, transaction.epoch = state.producer_id, state.producer_epoch
    commit = transaction._txn_offset_commit(group, {(TargetTopic(name), 0): Committed(7)})
    told = await client.coordinator("group", group, commit)
    assert told.topics[0].partitions[0].error_code == codes.NONE
    found: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True, patience_s=0.5)
    assert group in found.errors


def test_a_commit_that_comes_late_is_ended(
    east: LocalCluster,
    trusting: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
) -> None:
    """It counts for nothing, consumers see stable positions again, and the group is carried on."""
    name, group = topic("late"), topic("late")
    create(east, name)
    produce(east, name, records(50))
    consumers.commit(east, {group: {(name, 0): 30}})
    settings = GroupSettings(include=(GroupPattern.parse(group),))
    link = replace(link_of(east.cluster(), trusting.cluster(), name, name=name), groups=settings)

    async def scenario() -> None:
        async with (
            running(configuration_of(link), spark, timings=patient(unstable_s=1.0)) as run,
            Client(trusting.cluster()) as client,
        ):

            async def is_at(offset: int) -> bool:
                found: CommittedOffsets[str] = await committed_offsets(
                    client, [group], require_stable=True, patience_s=0.5
                )
                positions = found.values.get(group, {})
                return (name, 0) in positions and positions[name, 0].offset == offset

            await run.until(lambda: is_at(30))
            await late(client, name, group, name)
            await run.until(lambda: is_at(30))
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 40}})
            await run.until(lambda: is_at(40))

    asyncio.run(scenario())
