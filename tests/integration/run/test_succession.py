"""One controller per link: who comes second asks first, and waits for one that may be gone."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import Fenced, Occupied
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.link import LinkLedger, read_documents
from isthmus.ledger.log import LedgerWriter
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.model.state import LinkState
from isthmus.run.state.candidacy import WhenOccupied
from testing.brokers.proxy import Proxy
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import SEPTEMBER, Given
from testing.repeating import repeating
from testing.runs.running import Running, configuration_of, ends, link_of, patient, running

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
SELF = f"the controller on {socket.gethostname()}, pid {os.getpid()}, started "
ELSEWHERE = Whereabouts(host="db1", host_id="another boot", pid=4711, process_start=1)


def some(east: LocalCluster, *names: str) -> None:
    """Put ten records into each topic, which is created if need be."""
    for name in names:
        topics.produce(east, name, [Given(b"k", b"v", [], SEPTEMBER)] * 10)


async def controller_of(west: LocalCluster, link: str) -> ControllerDocument | None:
    """What the ledger says of a link's controller."""
    async with Client(west.cluster()) as client:
        found = (await read_documents(client)).get(f"controller/{link}")
        assert found is None or isinstance(found, ControllerDocument)
        return found


async def left_behind(west: LocalCluster, link: str) -> ControllerDocument:
    """A controller on another host has run the link, and said no farewell."""
    async with Client(west.cluster()) as client:
        ledger = LinkLedger(client, link, whereabouts=ELSEWHERE, started_ms=0)
        await ledger.open()
        ledger.close()
    found = await controller_of(west, link)
    assert found is not None
    return found


def state_of(run: Running) -> LinkState | None:
    """The state of the first link, once it has one."""
    return run.links[0].state if run.links else None


def is_waiting(run: Running) -> bool:
    """Whether the run says that it waits for the controller on the other host."""
    problem = run.links[0].problem if run.links else None
    return problem is not None and problem.message.startswith("waiting for the controller on db1, pid 4711, started 19")


def test_a_link_that_is_run_is_left_alone(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """The second run ends that link, naming the first controller, and runs its others; the first is not disturbed."""
    name, other = topic("run"), topic("beside")
    for each in (name, other):
        topics.create(east, each)
    some(east, name, other)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    # What the other controller mirrors is no other link's either.
    beside = link_of(east.cluster(), west.cluster(), name, other, name=other)

    async def is_at(topic_name: str, end: int) -> bool:
        return await ends(west, topic_name) == [end]

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as one:
            await one.until(lambda: is_at(name, 10))
            before = await controller_of(west, name)
            assert before is not None
            async with running(configuration_of(link, beside), spark, until_caught_up=True) as two:
                outcome = await two.task
            error = outcome.errors[name]
            assert isinstance(error, Occupied)
            assert error.message.startswith(f"link {name} is run by {SELF}")
            assert "--take-over" in error.hint
            assert (list(outcome.errors), outcome.exit_code) == ([name], 1)
            assert [t.problem is not None for t in outcome.links[1].topics if t.topic == name] == [True]
            assert await is_at(other, 10)
            async with running(configuration_of(link), spark, until_caught_up=True) as three:
                assert (await three.task).exit_code == Occupied.exit_code
            after = await controller_of(west, name)
            assert after is not None
            assert after.generation == before.generation
            await asyncio.to_thread(some, east, name)
            await one.until(lambda: is_at(name, 20))

    asyncio.run(scenario())


def test_an_operator_has_a_link_taken_over(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """Who is to take over does so at once; the one before ends with an exit code of its own and names the other."""
    name = topic("fenced")
    topics.create(east, name)
    some(east, name)
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))

    async def is_at(end: int) -> bool:
        return await ends(west, name) == [end]

    async def scenario() -> None:
        async with running(configuration, spark) as one:
            await one.until(lambda: is_at(10))
            async with running(configuration, spark, when_occupied=WhenOccupied.TAKE_OVER) as two:
                outcome = await one.task
                assert isinstance(outcome.errors[name], Fenced)
                assert outcome.errors[name].message.startswith(SELF)
                assert outcome.exit_code == Fenced.exit_code
                await asyncio.to_thread(some, east, name)
                await two.until(lambda: is_at(20))

    asyncio.run(scenario())


def test_who_stands_by_goes_on_when_the_other_ends(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """It says for whom it stands by, writes nothing while that one is heard, and runs other links meanwhile."""
    name, other = topic("stood"), topic("beside")
    for each in (name, other):
        topics.create(east, each)
    some(east, name, other)
    link = link_of(east.cluster(), west.cluster(), name, name=name)
    beside = link_of(east.cluster(), west.cluster(), other, name=other)

    async def is_at(topic_name: str, end: int) -> bool:
        return await ends(west, topic_name) == [end]

    async def scenario() -> None:
        async with running(configuration_of(link), spark) as one:
            await one.until(lambda: is_at(name, 10))
            before = await controller_of(west, name)
            async with running(configuration_of(link, beside), spark, when_occupied=WhenOccupied.STAND_BY) as two:
                await two.until(lambda: is_at(other, 10))
                await two.until(lambda: state_of(two) is LinkState.STANDBY)
                waiting = two.links[0]
                assert waiting.problem is not None
                assert waiting.problem.message.startswith(f"standing by for {SELF}")
                now = await controller_of(west, name)
                assert before is not None
                assert now is not None
                assert now.generation == before.generation
                assert (await one.end_well()).exit_code == 0
                await asyncio.to_thread(some, east, name)
                await two.until(lambda: is_at(name, 20))
                await two.until(lambda: two.links[0].problem is None)
                outcome = await two.end()
                assert (outcome.exit_code, outcome.errors) == (0, {})

    asyncio.run(scenario())


def test_who_stands_by_takes_a_silent_link_over(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """A controller on another host that was heard while one stood by is waited for until it is silent."""
    timings = patient(silence_s=6.0)
    name = topic("silent")
    topics.create(east, name)
    some(east, name)
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))

    async def scenario() -> None:
        former = await left_behind(west, name)
        async with running(configuration, spark, when_occupied=WhenOccupied.STAND_BY, timings=timings) as run:
            await run.until(lambda: state_of(run) is LinkState.STANDBY)
            async with Client(west.cluster()) as client:
                writer = LedgerWriter(client)
                for beat in range(1, 4):
                    await writer.append([replace(former, beat=former.beat + beat)])
                    await asyncio.sleep(0.2)
                writer.close()
            await run.until(lambda: state_of(run) is LinkState.ACTIVE)
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())


def test_a_controller_that_may_be_gone_is_waited_for(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """The run says what it waits for, and goes on after the silence.

    It is not given up meanwhile, although a cluster was reached only later: that its arrival took long is past.
    """
    timings = patient(silence_s=10.0)
    name = topic("silent")
    topics.create(east, name)
    some(east, name)
    (port,) = free_ports(1)
    later = replace(west.cluster(), bootstrap_servers=(f"127.0.0.1:{port}",))
    configuration = configuration_of(link_of(east.cluster(), later, name, name=name))

    async def scenario() -> None:
        former = await left_behind(west, name)
        async with running(configuration, spark, until_caught_up=True, timings=timings) as run:
            await run.until(lambda: bool(run.links) and run.links[0].state is LinkState.UNAVAILABLE)
            with Proxy(port, int(west.bootstrap_servers.rpartition(":")[2])):
                await run.until(lambda: is_waiting(run))
                run.controller.timings = replace(run.controller.timings, arrival_s=0.0)
                assert run.links[0].state is LinkState.STARTING
                assert await controller_of(west, name) == former
                outcome = await run.task
        assert (outcome.exit_code, outcome.records) == (0, 10)

    asyncio.run(scenario())


def test_a_beat_ends_the_wait(east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer) -> None:
    """The other controller was only slow: it is named, and nothing is written."""
    timings = patient(silence_s=600.0)
    name = topic("slow")
    topics.create(east, name)
    some(east, name)
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))

    async def scenario() -> None:
        former = await left_behind(west, name)
        async with running(configuration, spark, timings=timings) as run:
            await run.until(lambda: is_waiting(run))
            async with Client(west.cluster()) as client:
                writer = LedgerWriter(client)
                again = ControllerDocument(
                    link=name, generation=former.generation, beat=former.beat + 1, started_ms=0, host="db1", pid=4711
                )
                await writer.append([again])
                writer.close()
            outcome = await run.task
        assert outcome.errors[name].message.startswith(f"link {name} is run by the controller on db1, pid 4711")
        assert outcome.exit_code == Occupied.exit_code
        assert await controller_of(west, name) == again
        assert await ends(west, name) == [-1]

    asyncio.run(scenario())


PROGRAM = """
import sys
import isthmus

with isthmus.open(sys.argv[1], declared=False) as fabric:
    print(fabric.run(until="caught-up").exit_code)
    print({link: verdict.equal for link, verdict in fabric.verify().items()})
"""


def test_a_program_goes_on_with_the_spark_that_an_occupied_run_began_to_start(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, tmp_path: Path
) -> None:
    """A run that finds its link occupied ends while Spark starts. What verifies after it waits for that Spark: here
    it finds that nothing was copied.
    """
    name = topic("occupied")
    topics.create(east, name)
    some(east, name)
    former = asyncio.run(left_behind(west, name))
    file = tmp_path / "isthmus.json"
    ends_of = {each.name: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
    link = {"name": name, "source": east.name, "target": west.name, "topics": {"include": [name]}}
    file.write_text(json.dumps({"clusters": ends_of, "links": [link]}))
    beats = itertools.count(former.beat + 1)

    async def beat() -> None:
        async with Client(west.cluster()) as client:
            writer = LedgerWriter(client)
            await writer.append([replace(former, beat=next(beats))])
            writer.close()

    with repeating(lambda: asyncio.run(beat()), pause_s=0.3):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, timeout=TERM_S, check=False
        )
    assert ran.stdout.splitlines() == [str(Occupied.exit_code), str({name: False})], ran.stderr


def test_a_run_that_waits_can_be_ended(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer
) -> None:
    """It ends without waiting further, and leaves everything as it was."""
    timings = patient(silence_s=600.0)
    name = topic("patient")
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name, name=name))

    async def scenario() -> None:
        former = await left_behind(west, name)
        async with running(configuration, spark, timings=timings) as run:
            await run.until(lambda: is_waiting(run))
            outcome = await asyncio.wait_for(run.end(), 120.0)
        assert (outcome.exit_code, outcome.errors) == (0, {})
        assert await controller_of(west, name) == former

    asyncio.run(scenario())
