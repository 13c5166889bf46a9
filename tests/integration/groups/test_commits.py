"""Commits followed in the log of real brokers: the same as OffsetFetch tells, and as polling tells."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.kafka.client import Client
from isthmus.kafka.commits.follower import CommitFollower
from isthmus.kafka.commits.poller import CommitPoller
from isthmus.kafka.commits.source import CommitSource
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.naming import SourceTopic
from testing.brokers.acls import denied
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import SEPTEMBER, Given, create, produce

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


class Committers:
    """Groups that commit by chance: plainly, in transactions that overlap, and that are deleted."""

    def __init__(self, cluster: LocalCluster, topic: str, groups: list[str], chance: random.Random) -> None:
        self._cluster, self._topic, self._groups, self._chance = cluster, topic, groups, chance
        self._open: dict[Producer, bool] = {consumers.transactional(cluster, f"{topic}-{n}"): False for n in range(2)}

    def step(self) -> None:
        """Do one of all that may happen to the positions of a group."""
        chance, group = self._chance, self._chance.choice(self._groups)
        offsets = {(self._topic, p): chance.randrange(1000) for p in chance.sample(range(3), chance.randint(1, 3))}
        kind = chance.random()
        producer = chance.choice(list(self._open))
        if kind < 0.4:
            consumers.commit(self._cluster, {group: offsets})
        elif kind < 0.7:
            if not self._open[producer]:
                producer.begin_transaction()
                self._open[producer] = True
            consumers.send_offsets(producer, self._cluster, group, offsets)
        elif kind < 0.95:
            self.end(producer, commit=chance.random() < 0.6)
        else:
            # A group that does not exist, or that is in a transaction, is not deleted.
            with contextlib.suppress(KafkaException):
                consumers.delete_groups(self._cluster, group)

    def end(self, producer: Producer, *, commit: bool) -> None:
        if self._open[producer]:
            (producer.commit_transaction if commit else producer.abort_transaction)(TERM_S)
            self._open[producer] = False

    def end_all(self) -> None:
        for producer in self._open:
            self.end(producer, commit=True)


async def settled(client: Client, source: Any, groups: list[str]) -> None:
    """Wait until a source of commits tells what OffsetFetch tells."""
    deadline = time.monotonic() + TERM_S
    while True:
        await source.wait_for_changes(0.2)
        answers: CommittedOffsets[str] = await committed_offsets(client, groups)
        truth = {group: found for group, found in answers.values.items() if found}
        told = {group: found for group, found in source.positions.items() if found}
        if told == truth:
            return
        assert time.monotonic() < deadline, f"{told} instead of {truth}"


def test_the_log_tells_what_the_coordinator_tells(east: LocalCluster, topic: TopicNamer, chance: random.Random) -> None:
    """Whatever groups commit, by any way, the log read from any moment on and polling agree with OffsetFetch."""
    name = topic("followed")
    create(east, name, partitions=3)
    groups = [topic(f"group-{n}") for n in range(4)]
    committers = Committers(east, name, groups, chance)
    consumers.commit(east, {groups[0]: {(name, 0): 0}})

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            wanted = set(groups).__contains__
            sources: list[Any] = [CommitFollower(client, wanted), CommitPoller(client, wanted)]
            for number in range(40):
                await asyncio.to_thread(committers.step)
                if number % 20 == 10:
                    # This one begins in the middle of open transactions.
                    sources.append(CommitFollower(client, wanted))
                for source in sources:
                    await source.wait_for_changes(0)
                if number % 5 == 0:
                    await settled(client, sources[0], groups)
            await asyncio.to_thread(committers.end_all)
            for source in sources:
                await settled(client, source, groups)
                await source.aclose()

    asyncio.run(scenario())


def test_a_commit_is_heard_of_at_once(east: LocalCluster, topic: TopicNamer) -> None:
    """The log tells of a commit within some milliseconds."""
    name, group = topic("quick"), topic("quick")
    create(east, name)
    consumers.commit(east, {group: {(name, 0): 0}})

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            follower = CommitFollower(client, {group}.__contains__)
            assert await follower.wait_for_changes(1) == {group}
            member = consumers.consumer(east, group)
            delays = []
            for offset in range(1, 30):
                await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): offset}})
                begun = time.monotonic()
                while follower.positions[group][SourceTopic(name), 0].offset != offset:
                    await follower.wait_for_changes(1)
                delays.append(time.monotonic() - begun)
            member.close()
            await follower.aclose()
            # Some milliseconds on a machine with nothing else to do; the poll that is not ended lasts a second.
            assert sorted(delays)[len(delays) // 2] < 0.5, delays

    asyncio.run(scenario())


def test_commits_of_the_console_consumer(east: LocalCluster, topic: TopicNamer) -> None:
    """Kafka's own consumer commits with leader epochs and, where it can, with topic ids: both are understood."""
    name, group = topic("console"), topic("console")
    create(east, name)
    produce(east, name, [Given(None, b"%d" % n, [], SEPTEMBER) for n in range(5)])
    run = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", east.bootstrap_servers, "--topic", name, "--group", group),
        *("--from-beginning", "--max-messages", "5", "--timeout-ms", "300000"),
    )
    assert run.stdout.split() == ["0", "1", "2", "3", "4"]

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            follower = CommitFollower(client, {group}.__contains__)
            await settled(client, follower, [group])
            assert follower.positions[group][SourceTopic(name), 0].offset == 5
            await follower.aclose()

    asyncio.run(scenario())


def test_polling_where_the_log_may_not_be_read(secured: LocalCluster, topic: TopicNamer) -> None:
    """Without READ on `__consumer_offsets` the same positions come by polling, and the reason is told."""
    name, group = topic("polled"), topic("polled")
    create(secured, name)
    consumers.commit(secured, {group: {(name, 0): 3}})

    async def scenario() -> None:
        async with Client(secured.cluster()) as client:
            source = CommitSource(client, {group}.__contains__)
            deadline = time.monotonic() + TERM_S
            while source.known.way == "log" and time.monotonic() < deadline:
                # The brokers learn of the rule a moment later than the controller.
                await source.aclose()
                source = CommitSource(client, {group}.__contains__)
                await source.wait_for_changes(0.2)
            assert source.known.way == "polling"
            assert "__consumer_offsets" in source.reason
            await settled(client, source.known, [group])
            await asyncio.to_thread(consumers.commit, secured, {group: {(name, 0): 4}})
            await settled(client, source.known, [group])
            assert source.known.positions[group][SourceTopic(name), 0].offset == 4
            await source.aclose()

    with denied(secured, ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.READ):
        asyncio.run(scenario())
