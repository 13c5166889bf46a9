"""Groups whose clients move to another cluster and back: they go on at what was committed, within transactions too."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from isthmus.errors import PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.links.pair import PairState
from isthmus.model.links.promotion import Promotion
from isthmus.model.namespace import NamespaceKind, NamespaceMap
from isthmus.run.following import Following
from testing.gateways.gateways import gateway
from testing.gateways.moving import Writer, await_gateway, await_more, committed_records, librdkafka, made
from testing.groups import consumers
from testing.links.promoting import ends_at
from testing.patience import TERM_S, UNFENCED
from testing.runs.recovering import Interrupted
from testing.runs.running import Running, patient, running
from testing.verbs import Promoter, client_move

pytestmark = pytest.mark.integration
SESSION_MS: Final = 600_000
"""So long a member that has gone to another cluster is one still: nobody waits for its end."""
_KINDS: Final[tuple[NamespaceKind, ...]] = ("topic", "group")
_SESSIONS: Final = ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms")
Place = tuple[int, int]


@dataclass(slots=True)
class Copier:
    """One that copies a topic into another, each time some records and its own positions in one transaction. `again`
    are the places that it was given once more after it had committed them.
    """

    servers: str
    name: str
    source: str
    target: str
    committed: set[Place] = field(default_factory=set)
    again: list[Place] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    """Why its producers could not go on."""
    _joined: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)
    _failed: list[BaseException] = field(default_factory=list)

    def await_copied(self, count: int) -> None:
        """Wait until so many records are committed."""
        deadline = time.monotonic() + TERM_S
        while len(self.committed) < count:
            assert not self._failed, self._failed
            assert time.monotonic() < deadline, (len(self.committed), count, self.said[-5:])
            time.sleep(0.1)

    def work(self) -> None:
        """Go on until it is told to end."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "group.id": self.name}
        settings |= {"enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS}
        consumer = Consumer({**settings, "max.poll.interval.ms": SESSION_MS})
        consumer.subscribe([self.source], on_assign=self._join)
        try:
            producer = self._begin_transaction()
            while not self._is_over.is_set():
                joined = self._joined
                messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
                if joined != self._joined:
                    # Some of these may be from before, and come again.
                    self._go_back(consumer)
                elif messages:
                    producer = self._copy(producer, consumer, messages)
        except BaseException as error:
            self._failed.append(error)
            raise
        finally:
            consumer.close()

    def end(self) -> None:
        """Have it end behind what it is at."""
        self._is_over.set()

    def _join(self, *_: object) -> None:
        self._joined += 1

    def _begin_transaction(self) -> Producer:
        # librdkafka 2.16 throws its brokers away when none is connected any more, and then waits for ever for the one
        # that it takes for the coordinator of the group.
        settings = {"bootstrap.servers": self.servers, "metadata.recovery.strategy": "none"}
        producer = Producer({**settings, "transactional.id": self.name})
        producer.init_transactions(TERM_S)
        return producer

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> Producer:
        places = [(each.partition() or 0, each.offset() or 0) for each in messages]
        self.again += [each for each in places if each in self.committed]
        ends = {partition: offset + 1 for partition, offset in sorted(places)}
        try:
            producer.begin_transaction()
            for each in messages:
                producer.produce(self.target, each.value(), partition=each.partition() or 0)
            producer.send_offsets_to_transaction(
                [TopicPartition(self.source, *each) for each in ends.items()],
                consumer.consumer_group_metadata(),
                TERM_S,
            )
            _repeated(producer.commit_transaction)
        except KafkaException as error:
            self._say("copying", error)
            producer = self._given_up(producer, error)
            self._go_back(consumer)
        else:
            self.committed.update(places)
        return producer

    def _given_up(self, producer: Producer, error: KafkaException) -> Producer:
        """One that goes on, when a transaction was aborted."""
        if not error.args[0].fatal():
            try:
                _repeated(producer.abort_transaction)
            except KafkaException as other:
                self._say("aborting", other)
            else:
                return producer
        self.given_up += self.said[-2:]
        return self._begin_transaction()

    def _say(self, doing: str, error: KafkaException) -> None:
        what = error.args[0]
        self.said.append(f"{doing}: {what.name()} {what.str()} fatal={what.fatal()} abort={what.txn_requires_abort()}")

    def _go_back(self, consumer: Consumer) -> None:
        """Read on at what is committed."""
        joined = self._joined
        assigned = consumer.assignment()
        for each in _repeated(lambda term_s: consumer.committed(assigned, timeout=term_s)):
            where = each.offset if each.offset >= 0 else OFFSET_BEGINNING
            self.said.append(f"back to {each.partition}-{where}")
            with suppress(KafkaException):
                # Whoever has lost a partition begins at what is committed when it has it again.
                consumer.seek(TopicPartition(self.source, each.partition, where))
        if joined != self._joined:
            self._go_back(consumer)


@dataclass(slots=True)
class Committer:
    """One that reads a topic in a group that brokers assign (KIP-848), and commits each time what it has read. `again`
    are the places that it was given once more after it had committed them.
    """

    servers: str
    name: str
    topic: str
    committed: set[Place] = field(default_factory=set)
    again: list[Place] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def await_committed(self, count: int) -> None:
        """Wait until so many records are committed."""
        deadline = time.monotonic() + TERM_S
        while len(self.committed) < count:
            assert time.monotonic() < deadline, (len(self.committed), count, self.said[-5:])
            time.sleep(0.1)

    def work(self) -> None:
        """Go on until it is told to end."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "group.id": self.name}
        settings |= {"enable.auto.commit": False, "auto.offset.reset": "earliest", "group.protocol": "consumer"}
        consumer = Consumer(settings)
        consumer.subscribe([self.topic])
        while not self._is_over.is_set():
            messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
            places = [(each.partition() or 0, each.offset() or 0) for each in messages]
            self.again += [each for each in places if each in self.committed]
            ends = {partition: offset + 1 for partition, offset in sorted(places)}
            try:
                if ends:
                    positions = [TopicPartition(self.topic, *each) for each in ends.items()]
                    consumer.commit(offsets=positions, asynchronous=False)
            except KafkaException as error:
                self.said.append(str(error))
            else:
                self.committed.update(places)
        consumer.close()

    def end(self) -> None:
        """Have it end behind what it is at."""
        self._is_over.set()


def _repeated(call: Callable[[float], Any]) -> Any:
    """What comes of a call that is to be made again as long as its error says so."""
    while True:
        try:
            return call(TERM_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@contextmanager
def at_work(worker: Copier | Committer) -> Iterator[None]:
    """It works, in a thread of its own."""
    thread = threading.Thread(target=worker.work, name=worker.name)
    thread.start()
    try:
        yield
    finally:
        worker.end()
        thread.join(TERM_S)


def is_following(run: Running, name: str, pair: NamespaceMap) -> bool:
    """Whether a link has copied what there is."""
    found = [each for each in run.links if each.link == name]
    return bool(found) and found[0].state_of(pair) is PairState.FOLLOWING


@pytest.fixture
def clusters() -> Iterator[list[LocalCluster]]:
    """Two clusters with nothing but what the tests here make, which miss no member of a group."""
    patient_with = {each: str(SESSION_MS) for each in _SESSIONS}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                LocalCluster.start(alias, brokers=1, heap_mb=256, properties={**UNFENCED, **patient_with})
            )
            for alias in ("one", "two")
        ]


@pytest.fixture
def both(clusters: list[LocalCluster]) -> Configuration:
    """A file with both and no link."""
    return Configuration(
        clusters=tuple(each.cluster() for each in clusters),
        links=(),
        timings=patient(calm_s=0.2, follow_s=0.2),
        spark=SparkSettings(lease_term_s=600.0),
    )


def test_a_copier_that_is_moved_there_and_back_and_there(
    both: Configuration, clusters: list[LocalCluster], spark: SparkSession
) -> None:
    """Who copies exactly once goes on where it was: at each cluster the positions that it committed in transactions are
    those of the other one, though it is a member there still. What it wrote is there once, and it is given nothing
    again that it has committed. Its producer stays the same.
    """
    source, target, name = "moved.in", "moved.out", "moved.copier"
    for topic in (source, target):
        made(clusters[0], topic)
    maps = [NamespaceMap.parse("moved.", kind) for kind in _KINDS]
    Fabric(both).declarations.create("link-0", source="one", target="two", maps=maps)
    with ExitStack() as stack:
        front = stack.enter_context(gateway(clusters[0].cluster(), configuration=both))
        writer = stack.enter_context(librdkafka(front.servers, source))
        copier = Copier(front.servers, name, source, target)
        stack.enter_context(at_work(copier))
        moves = asyncio.run(moved_thrice(both, spark, maps[0], writer, copier.committed, copier.await_copied))
        told = {"groups": [each.groups for each in moves], "said": copier.said}
        wanted = Counter(range(len(writer.acknowledged())))
        values = [value for values in committed_records(clusters[1], target).values() for value in values]
        written = Counter(int(value.split(b"-")[1]) for value in values)
    assert (wanted - written, written - wanted) == (Counter(), Counter()), told
    assert copier.again == [], told
    assert [each.groups for each in moves] == [{name: "IN_STEP"}] * 3
    assert copier.given_up == [], told


def test_a_group_that_brokers_assign_is_moved_there_and_back_and_there(
    both: Configuration, clusters: list[LocalCluster], spark: SparkSession
) -> None:
    """Its members are taken out where they were: no move waits until brokers miss them, as that takes longer than a
    move may. At each cluster they go on at what they have committed at the other one.
    """
    topic, name = "assigned.in", "assigned.reader"
    made(clusters[0], topic)
    maps = [NamespaceMap.parse("assigned.", kind) for kind in _KINDS]
    Fabric(both).declarations.create("link-0", source="one", target="two", maps=maps)
    with ExitStack() as stack:
        front = stack.enter_context(gateway(clusters[0].cluster(), configuration=both))
        writer = stack.enter_context(librdkafka(front.servers, topic))
        reader = Committer(front.servers, name, topic)
        stack.enter_context(at_work(reader))
        moves = asyncio.run(moved_thrice(both, spark, maps[0], writer, reader.committed, reader.await_committed))
    assert [each.groups for each in moves] == [{name: "IN_STEP"}] * 3
    assert reader.again == [], reader.said


async def moved_thrice(
    both: Configuration,
    spark: SparkSession,
    pair: NamespaceMap,
    writer: Writer,
    done: Collection[Place],
    await_done: Callable[[int], None],
) -> list[Promotion]:
    """Reverse a link, and that one, and that one, while somebody writes, and another one does something with each
    record; what came of it, once nothing is left to be done.
    """
    found, opened = [], open_fabric(both, declared=True).configuration
    following = Following(written=opened.written)
    async with running(opened, spark, following=following, timings=both.timings) as run:
        for number in range(3):
            await asyncio.to_thread(await_more, [writer])
            await asyncio.to_thread(await_done, len(done) + 100)
            link = f"link-{number}"
            await run.until(partial(is_following, run, link, pair))
            promoter = Promoter(configuration=both, name=link, quiet_s=0.2, timeout_s=TERM_S)
            found.append(await promoter.reverse(f"link-{number + 1}"))
        await asyncio.to_thread(await_more, [writer])
        writer.end()
        await asyncio.to_thread(await_done, len(writer.acknowledged()))
    return found


def test_members_at_the_target_that_nobody_meets(both: Configuration, clusters: list[LocalCluster]) -> None:
    """Who reads there under a name that the source does not have is not in the way, nor are workers that have no
    positions: clients may go. A group of the source that is at work there is named.
    """
    topic, group, workers = "local.in", "local.app", "local.workers"
    for each in clusters:
        made(each, topic)
    maps = [NamespaceMap.parse("local.", kind) for kind in _KINDS]
    Fabric(both).declarations.create("local", source="one", target="two", maps=maps)
    (link,) = open_fabric(both, declared=True).configuration.links

    async def check() -> None:
        async with client_move(link, maps, timeout_s=TERM_S, is_forced=False, on_step=lambda _: None) as move:
            await move.check()

    with ExitStack() as stack:
        stack.enter_context(gateway(clusters[0].cluster(), configuration=both))
        for each in clusters:
            asyncio.run(await_gateway(each))
            stack.enter_context(consumers.worker(each, workers))
        stack.enter_context(consumers.joined(clusters[1], group, topic))
        asyncio.run(check())
        consumers.commit(clusters[0], {group: {(topic, 0): 0}})
        with pytest.raises(PlanRefused, match=f"groups have members at two already.*: {group}(?!,)"):
            asyncio.run(check())


def test_positions_that_are_committed_after_an_interrupted_release(
    both: Configuration, clusters: list[LocalCluster], spark: SparkSession
) -> None:
    """A command is interrupted behind the release, and clients go on where they were: what they commit there until it
    is given again is carried.
    """
    topic, group = "late.in", "late.app"
    made(clusters[0], topic)
    consumers.commit(clusters[0], {group: {(topic, 0): 0}})
    maps = [NamespaceMap.parse("late.", kind) for kind in _KINDS]
    Fabric(both).declarations.create("late", source="one", target="two", maps=maps)
    opened = open_fabric(both, declared=True).configuration
    only = replace(opened, links=tuple(link for link in opened.links if link.name == "late"))

    async def copied() -> None:
        async with running(only, spark, until_caught_up=True) as run:
            await run.task

    with gateway(clusters[0].cluster(), configuration=both) as front:
        writer = Producer({"bootstrap.servers": front.servers})
        writer.produce(topic, b"0", partition=0)
        assert writer.flush(TERM_S) == 0
        asyncio.run(copied())
        promoter = Promoter(configuration=both, name="late", quiet_s=0.2, timeout_s=TERM_S)
        with pytest.raises(Interrupted):
            asyncio.run(replace(promoter, on_step=ends_at("having gateways serve")).promote())
        consumers.commit(clusters[0], {group: {(topic, 0): 1}})
        found = asyncio.run(promoter.promote())
    assert (len(found.gateways), found.groups) == (1, {group: "IN_STEP"})
    consumers.await_position(clusters[1], group, (topic, 0), 1)
