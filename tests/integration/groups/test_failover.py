"""Real consumers that go on at the other cluster, and come back: nothing is missed, nothing is read twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from testing.groups import consumers
from testing.groups.carrying import between, carrying, filled, going_on, records
from testing.patience import TERM_S
from testing.records.topics import create, create_both, produce
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
PARTITIONS = 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_over_and_comes_back(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, mirror: Mirror, protocol: str
) -> None:
    """A consumer reads a part at the source, a part at the target, and the rest back home, while records arrive."""
    name, group = topic("over"), topic("over")
    create_both(east, west, name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(east, name, records(40, begin=1000 * partition), partition=partition)
    everything = sorted(b"%d" % (1000 * p + n) for p in range(PARTITIONS) for n in range(60))
    consumers.commit(east, {group: {(name, p): 0 for p in range(PARTITIONS)}})
    forth = between(east, west, [name], [group])
    back = replace(between(west, east, [name], [group]), name=f"{name}-back")

    async def scenario() -> None:
        seen = await asyncio.to_thread(going_on, east, group, name, 50, protocol)
        async with mirror.running(name) as running, carrying(forth) as link:
            for partition in range(PARTITIONS):
                more = records(20, begin=1000 * partition + 40)
                await asyncio.to_thread(produce, east, name, more, partition=partition)
            await running.until_copied()
            await link.until_at(group, await offsets_at(link.source, group))
        seen += await asyncio.to_thread(going_on, west, group, name, 70, protocol)
        async with carrying(back) as link:
            await link.until_at(group, await offsets_at(link.source, group))
        seen += await asyncio.to_thread(going_on, east, group, name, 60, protocol)
        assert sorted(seen) == everything

    asyncio.run(scenario())


async def offsets_at(client: Client, group: str) -> dict[int, int]:
    """Where a group stands, by partition."""
    answers: CommittedOffsets[str] = await committed_offsets(client, [group])
    found = answers.values[group]
    return {partition: committed.offset for (_, partition), committed in found.items()}


def test_kafkas_own_consumer_goes_on(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """The console consumer reads the first records at the source and exactly the others at the target."""
    name, group = topic("console"), topic("console")
    filled(east, west, name, 10)

    def console(cluster: LocalCluster, count: int) -> list[str]:
        run = kafka_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", name, "--group", group),
            *("--max-messages", str(count), "--timeout-ms", "300000"),
            *("--command-property", "auto.offset.reset=earliest"),
        )
        return run.stdout.split()

    async def scenario() -> None:
        assert await asyncio.to_thread(console, east, 4) == ["0", "1", "2", "3"]
        async with carrying(between(east, west, [name], [group])) as link:
            await link.until_at(group, {0: 4})
        assert await asyncio.to_thread(console, west, 6) == ["4", "5", "6", "7", "8", "9"]

    asyncio.run(scenario())


def test_a_transactional_consumer_goes_on(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Offsets sent to a transaction count once it is committed: what an aborted one had read is read at the target."""
    name, out, group = topic("exact"), topic("out"), topic("exact")
    filled(east, west, name, 12)
    create(east, out)
    producer = consumers.transactional(east, group)

    def process(count: int, *, commit: bool) -> None:
        member = consumers.consumer(east, group)
        member.subscribe([name])
        try:
            producer.begin_transaction()
            last = None
            for _ in range(count):
                last = member.poll(TERM_S)
                assert last is not None
                producer.produce(out, last.value())
            assert last is not None
            position = TopicPartition(name, 0, (last.offset() or 0) + 1)
            producer.send_offsets_to_transaction([position], member.consumer_group_metadata(), TERM_S)
            end(producer, commit=commit)
        finally:
            member.close()

    def end(producer: Producer, *, commit: bool) -> None:
        (producer.commit_transaction if commit else producer.abort_transaction)(TERM_S)

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group])) as link:
            await asyncio.to_thread(process, 5, commit=True)
            await link.until_at(group, {0: 5})
            await asyncio.to_thread(process, 4, commit=False)
            await asyncio.sleep(0.5)
            assert await link.offsets(group) == {0: 5}
        rest = await asyncio.to_thread(going_on, west, group, name, 7)
        assert rest == [b"%d" % n for n in range(5, 12)]

    asyncio.run(scenario())
