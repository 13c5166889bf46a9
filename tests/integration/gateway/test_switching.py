"""Clients that are moved in the middle of what they do, by a link whose lanes run: there, back, and there again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer
from kafka.protocol.admin import DescribeTransactionsRequest

from isthmus.errors import GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.transactions.producers import active_producers, allocate_producer
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import LinkDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.producerids import is_tagged
from isthmus.model.namespace import NamespaceMap
from testing.brokers.proxy import Proxy, Weather
from testing.gateways.commits import Doing, await_held
from testing.gateways.gateways import HOST, free_range, gateway
from testing.gateways.moving import (
    PARTITIONS,
    Judged,
    await_more,
    committed_records,
    forget_moves,
    java,
    judged,
    kafka_python,
    librdkafka,
    linked_alike,
    made,
    moved,
    read_all,
    reversed_with_lanes,
    transactional,
)
from testing.gateways.synchronous import lanes, synchronous
from testing.patience import TERM_S
from testing.runs.command import start
from testing.runs.mirror import Mirror
from testing.runs.running import patient

pytestmark = pytest.mark.integration
HEAP_MB: Final = 256

STEPS: Final = (
    "waiting until all that",
    "waiting until 3 gateways",
    "waiting until one",
    "detaching",
    "writing down",
    "releasing",
    "carrying the",
    "having gateways",
)
"""Of a command, where a gateway is lost; the last one is when it is decided."""
FORCED: Final = ("waiting until all that", "waiting until one", "releasing")
"""Where one is lost that the command is forced to go on without."""


@dataclass(slots=True)
class Standing:
    """A gateway of two processes, started by the command, which starts those again that are killed."""

    process: subprocess.Popen[str]
    servers: str
    pausing: list[threading.Timer] = field(default_factory=list)
    paused: list[int] = field(default_factory=list)

    def workers(self) -> list[int]:
        """The processes that serve."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, check=True)
        return [int(pid) for pid in listed.stdout.split()]

    def signal(self, pids: list[int], number: int) -> None:
        """Send it to those that are there still."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self, term_s: float | None) -> None:
        """Have it stand still for so long (s), or until it is to go on."""
        self.paused = self.workers()
        self.signal(self.paused, signal.SIGSTOP)
        if term_s is not None:
            self.pausing.append(threading.Timer(term_s, self.signal, (self.paused, signal.SIGCONT)))
            self.pausing[-1].start()

    def await_going_on(self) -> None:
        """Wait until it does not stand still any more."""
        while self.pausing:
            self.pausing.pop().join(TERM_S)

    def go_on(self) -> None:
        """Have it stand still no more."""
        self.await_going_on()
        self.signal(self.paused, signal.SIGCONT)
        self.paused = []


@contextmanager
def standing(configuration: Path, folder: Path, *, size: int) -> Iterator[Standing]:
    """A gateway before the first cluster."""
    port = free_range(size)
    where = ("--listen", f"{HOST}:{port}-{port + size - 1}", "--advertise", f"{HOST}:{port}", "--processes", "2")
    words = ("-v", "-c", configuration, "gateway", "serve", "one", *where)
    with (folder / "gateway.log").open("w") as log, start(*words, stderr=log, text=True) as process:
        try:
            deadline = time.monotonic() + TERM_S
            while (folder / "gateway.log").read_text().count(f"are behind {HOST}:{port}") < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            found = Standing(process, f"{HOST}:{port}")
            try:
                yield found
            finally:
                found.go_on()
        finally:
            process.terminate()


_PAUSES_S: Final = {"paused": 3.0, "paused for long": 17.0, "forced": None}


def lose(lost: Standing, fault: str, step: str) -> Callable[[str], None]:
    """Has it be lost once, when a command comes to a step."""
    done = list[str]()

    def at_step(now: str) -> None:
        if now.startswith(step) and not done:
            done.append(now)
            if fault == "interrupted":
                raise GateNotMet("the command was interrupted")
            if fault == "killed":
                lost.signal(lost.workers(), signal.SIGKILL)
            else:
                lost.pause(_PAUSES_S[fault])

    return at_step


def reversed_in_the_end(
    configuration: Configuration, number: int, mirror: Mirror, name: str, lost: Standing, at_step: Callable[[str], None]
) -> None:
    """Reverse a link, and do what errors say as often as it takes."""
    told = list[str]()
    while True:
        try:
            reversed_with_lanes(
                configuration,
                f"link-{number}",
                f"link-{number + 1}",
                mirror,
                name,
                clients="force" if told else "move",
                timeout_s=40.0,
                at_step=at_step,
            )
        except GateNotMet as error:
            told.append(f"{error.message} {error.hint}")
            assert len(told) < 5, told
            # One that stands still is forgotten, and goes on later.
            lost.await_going_on()
            if "reattach" in error.hint:
                Fabric(configuration).declarations.reattach(f"link-{number}")
        else:
            lost.go_on()
            return


@pytest.mark.parametrize("fault", ["killed", "paused", "paused for long", "forced", "interrupted"])
def test_something_is_lost_at_each_step(fault: str, tmp_path: Path) -> None:
    """One of two gateways is killed and started again, or stands still, or the command is interrupted, at one step
    after the other, while clients write and are moved back and forth: nothing is lost, comes twice or is out of order,
    and a command that ends with an error says how to go on. One that stands still until clients have gone without it
    lets nothing pass when it goes on.
    """
    name = "switched"
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(LocalCluster.start(alias, brokers=brokers, heap_mb=HEAP_MB))
            for alias, brokers in (("one", 1), ("two", 2))
        )
        file = tmp_path / "isthmus.yaml"
        lines = [f'  {each.name}: {{bootstrap_servers: "{each.bootstrap_servers}"}}' for each in (one, two)]
        file.write_text("\n".join(["clusters:", *lines, ""]))
        configuration = Configuration(clusters=(one.cluster(), two.cluster()), links=(), timings=patient(calm_s=0.2))
        made(one, name)
        made(two, name)
        maps = [NamespaceMap.parse(f"{name}:{name}", is_exact=True)]
        Fabric(configuration).declarations.create("link-0", source="one", target="two", maps=maps)
        mirrors = Mirror(one, two), Mirror(two, one)
        for mirror in mirrors:
            asyncio.run(known_lanes(mirror, name))
        running = stack.enter_context(gateway(one.cluster(), size=2, configuration=configuration))
        lost = stack.enter_context(standing(file, tmp_path, size=2))
        writers = [
            stack.enter_context(librdkafka(running.servers, name)),
            stack.enter_context(librdkafka(lost.servers, name, name="s")),
            stack.enter_context(kafka_python(lost.servers, name, tmp_path)),
        ]
        steps = FORCED if fault == "forced" else STEPS
        for number, step in enumerate(steps):
            await_more(writers)
            at_step = lose(lost, fault, step)
            reversed_in_the_end(configuration, number, mirrors[number % 2], name, lost, at_step)
        await_more(writers)
        for writer in writers:
            writer.end()
        acknowledged = {writer.name: writer.acknowledged() for writer in writers}
        records = read_all((one, two)[len(steps) % 2], name)
    assert {each: judged(records, each, numbers) for each, numbers in acknowledged.items()} == {
        each: Judged() for each in "rsp"
    }


async def known_lanes(mirror: Mirror, topic: str) -> None:
    """Have the target's ledger know the producers of these lanes, as it knows those of a link that is run."""
    async with mirror.running(topic):
        pass
    assert mirror.producer is not None
    async with Client(mirror.target.cluster()) as client:
        document = LinkDocument(
            link=f"lanes to {mirror.target.name}",
            source_cluster_id="",
            target_cluster_id="",
            producer_id=mirror.producer.producer_id,
            marker_producer_id=mirror.producer.marker_producer_id,
        )
        await append_once(client, [document], replication_factor=1)


def test_equal_producer_ids_on_both_sides(east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A producer that comes to a cluster meets one there that got the same id, and both write on. One in the middle of
    a transaction meets itself there, of an earlier time, and commits nothing of the rest.
    """
    name, clusters = topic("equal"), (east, west)
    configuration, links = linked_alike(name, *clusters)
    asyncio.run(same_ids_next(*clusters))
    # Both give the same id and epoch to the one in transactions.
    for cluster, times in ((west, 2), (east, 1)):
        for _ in range(times):
            transactional(cluster.bootstrap_servers, f"{name}-t")
    asyncio.run(ids_up_to(east, beyond=50))
    try:
        with gateway(east.cluster(), size=1, configuration=configuration) as running, ExitStack() as stack:
            first = stack.enter_context(librdkafka(running.servers, name))
            await_more([first], 20)
            half = transactional(running.servers, f"{name}-t")
            half.begin_transaction()
            half.produce(name, b"t-0", partition=0)
            half.flush(TERM_S)
            asyncio.run(announced(east, f"{name}-i", (name, 2)))
            found = reversed_with_lanes(configuration, name, f"{name}-1", Mirror(east, west), name)
            (known,) = asyncio.run(raw_ids(west, name))
            asyncio.run(ids_up_to(west, last=known - 1))
            second = stack.enter_context(librdkafka(running.servers, name, name="s"))
            await_more([first, second])
            assert asyncio.run(raw_ids(west, name)) == [known, known]
            half.produce(name, b"t-1", partition=1)
            with pytest.raises(KafkaException):
                half.commit_transaction(TERM_S)
            for writer in (first, second):
                writer.end()
            acknowledged = {writer.name: writer.acknowledged() for writer in (first, second)}
            links.delete(f"{name}-1")
        assert [each.transactional_id for each in found.aborted_at_source] == [f"{name}-t"]
        (note,) = found.notes
        assert note.message.startswith(f"transactions of {name}-i were aborted at east ")
        records = committed_records(west, name)
        assert not [each for values in records.values() for each in values if each.startswith(b"t-")]
        as_written = {partition: [(value, 0) for value in values] for partition, values in records.items()}
        assert {each: judged(as_written, each, numbers) for each, numbers in acknowledged.items()} == {
            each: Judged() for each in "rs"
        }
    finally:
        asyncio.run(forget_moves(*clusters))


@pytest.mark.parametrize("is_same", [False, True], ids=["new there", "the same there"])
def test_a_commit_whose_answer_is_lost(
    is_same: bool, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A client whose connection breaks behind its commit asks again where it is by then: it is told what the source has
    decided, does nothing twice, and goes on; there its transactional id is new, or has the same producer by chance.
    """
    name, clusters = topic("untold"), (east, west)
    configuration, links = linked_alike(name, *clusters)
    if is_same:
        asyncio.run(same_ids_next(*clusters))
        transactional(west.bootstrap_servers, name)
    (own,) = east.cluster().bootstrap_servers
    (port,) = free_ports(1)
    behind = replace(east.cluster(), addresses=((own, f"{HOST}:{port}"),))
    try:
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(port, int(own.rpartition(":")[2])))
            running = stack.enter_context(gateway(behind, size=1, configuration=configuration))
            deafness = stack.enter_context(ExitStack())
            producer = transactional(running.servers, name, **{"socket.timeout.ms": 2_000})
            producer.begin_transaction()
            for number in range(PARTITIONS):
                producer.produce(name, b"t-%d" % number, partition=number)
            assert producer.flush(TERM_S) == 0
            deafness.enter_context(proxy.weather(Weather.DEAF))
            committing = Doing(lambda: producer.commit_transaction(TERM_S))
            asyncio.run(await_committed(east, name))

            def at_step(step: str) -> None:
                if step.startswith("waiting until east is quiet"):
                    assert not committing.is_done
                    deafness.close()

            reversed_with_lanes(configuration, name, f"{name}-1", Mirror(east, west), name, at_step=at_step)
            assert committing.result() is None
            # Nothing has begun there.
            with pytest.raises(KafkaException):
                written_within(producer, name, PARTITIONS)
            producer.abort_transaction(TERM_S)
            written_within(producer, name, PARTITIONS)
            links.delete(f"{name}-1")
        found = sorted(value for values in committed_records(west, name).values() for value in values)
        assert found == [b"t-%d" % number for number in range(PARTITIONS + 1)]
    finally:
        asyncio.run(forget_moves(*clusters))


def test_an_instance_whose_place_was_taken_at_the_other_cluster(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """One that stood still while clients moved is fenced there by the one that was started in its place, as it would be
    where nobody moves: it does nothing once more. The new one is not disturbed, and goes on at the cluster that its
    transactional id comes back to.
    """
    name, clusters = topic("replaced"), (east, west)
    configuration, links = linked_alike(name, *clusters)
    try:
        with gateway(east.cluster(), size=1, configuration=configuration) as running:
            old = transactional(running.servers, name)
            old.begin_transaction()
            for number in range(PARTITIONS):
                old.produce(name, b"t-%d" % number, partition=number)
            old.commit_transaction(TERM_S)
            reversed_with_lanes(configuration, name, f"{name}-1", Mirror(east, west), name)
            new = transactional(running.servers, name)
            written_within(new, name, PARTITIONS)
            with pytest.raises(KafkaException):
                written_within(old, name, PARTITIONS + 1)
            with pytest.raises(KafkaException) as fenced:
                old.abort_transaction(TERM_S)
            assert fenced.value.args[0].fatal(), fenced.value
            written_within(new, name, PARTITIONS + 1)
            reversed_with_lanes(configuration, f"{name}-1", f"{name}-2", Mirror(west, east), name)
            # East knows another producer by that name.
            with pytest.raises(KafkaException):
                written_within(new, name, PARTITIONS + 2)
            new.abort_transaction(TERM_S)
            written_within(new, name, PARTITIONS + 2)
            links.delete(f"{name}-2")
        found = sorted(value for values in committed_records(east, name).values() for value in values)
        assert found == [b"t-%d" % number for number in range(PARTITIONS + 3)]
    finally:
        asyncio.run(forget_moves(*clusters))


def test_an_instance_that_stood_still_over_two_moves(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """At the cluster that clients are back at it is fenced by the one that was started in its place elsewhere, whoever
    of them comes first; that one goes on.
    """
    name, clusters = topic("still"), (east, west)
    configuration, links = linked_alike(name, *clusters)
    try:
        with gateway(east.cluster(), size=1, configuration=configuration) as running:
            old = transactional(running.servers, name)
            written_within(old, name, 0)
            reversed_with_lanes(configuration, name, f"{name}-1", Mirror(east, west), name)
            new = transactional(running.servers, name)
            written_within(new, name, 1)
            reversed_with_lanes(configuration, f"{name}-1", f"{name}-2", Mirror(west, east), name)
            with pytest.raises(KafkaException):
                written_within(old, name, 7)
            with pytest.raises(KafkaException) as fenced:
                old.abort_transaction(TERM_S)
            assert fenced.value.args[0].fatal(), fenced.value
            with pytest.raises(KafkaException):
                written_within(new, name, 8)
            new.abort_transaction(TERM_S)
            written_within(new, name, 2)
            links.delete(f"{name}-2")
        assert committed_records(east, name)[0] == [b"t-0", b"t-1", b"t-2"]
    finally:
        asyncio.run(forget_moves(*clusters))


def written_within(producer: Producer, name: str, number: int) -> None:
    """Write a number in a transaction."""
    producer.begin_transaction()
    producer.produce(name, b"t-%d" % number, partition=0)
    producer.commit_transaction(TERM_S)


async def await_committed(cluster: LocalCluster, name: str) -> None:
    """Wait until the coordinator of a transactional id has committed its transaction."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    async with asyncio.timeout(TERM_S), Client(cluster.cluster()) as client:
        while True:
            (state,) = (await client.coordinator("transaction", name, request)).transaction_states
            if state.transaction_state == "CompleteCommit":
                return
            await asyncio.sleep(0.05)


async def ids_up_to(cluster: LocalCluster, *, beyond: int = 0, last: int = -1) -> None:
    """Have a cluster of one broker give producer ids until that one was the last, or so many more."""
    async with Client(cluster.cluster()) as client:
        given = await allocate_producer(client)
        last = last if last >= 0 else given + beyond
        assert given <= last
        while given < last:
            given = await allocate_producer(client)


def test_connections_cut_while_answers_are_held(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """What three kinds of clients had no answer to, as the follower lacked it, they send again, to the other cluster
    then, which has it by now: it is there once, in order.
    """
    name = topic("cut")
    for cluster in (east, west):
        made(cluster, name)
    with synchronous(east, west, name) as (running, _), ExitStack() as stack:
        writers = [
            stack.enter_context(librdkafka(running.servers, name)),
            stack.enter_context(kafka_python(running.servers, name, tmp_path)),
            stack.enter_context(java(running.servers, name, tmp_path)),
        ]
        with lanes(Mirror(east, west), name):
            await_more(writers)
        await_held(running, len(writers))
        moved(running, east, west, name, stay=1, cuts=True)
        await_more(writers)
        for writer in writers:
            writer.end()
        acknowledged = {writer.name: writer.acknowledged() for writer in writers}
    records = read_all(west, name)
    assert {each: judged(records, each, numbers) for each, numbers in acknowledged.items()} == {
        each: Judged() for each in "rp7"
    }


async def same_ids_next(*clusters: LocalCluster) -> None:
    """Have these clusters of one broker be about to give the same producer id."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(each.cluster())) for each in clusters]
        given = [await allocate_producer(each) for each in clients]
        while len(set(given)) > 1:
            behind = given.index(min(given))
            given[behind] = await allocate_producer(clients[behind])


async def announced(cluster: LocalCluster, transactional_id: str, key: PartitionKey) -> None:
    """Begin a transaction of which its coordinator alone knows."""
    async with Client(cluster.cluster()) as client:
        transaction = Transaction(client, transactional_id)
        await transaction.initialize()
        await transaction.begin(key)


async def raw_ids(cluster: LocalCluster, name: str) -> list[int]:
    """The ids of a topic's idempotent producers that came through gateways, as their clusters gave them."""
    async with Client(cluster.cluster()) as client:
        leaders = {(each.topic, each.partition): each.leader for each in partitions_of(await client.metadata([name]))}
        found = (await active_producers(client, leaders)).values
        return [each.producer_id & 0xFFFFFFFFFF for each in found[name, 0] if is_tagged(each.producer_id)]
