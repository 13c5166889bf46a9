"""Runs in the background of a program that has a Spark session."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.errors import ConfigError, Fenced, GateNotMet, HostError, Occupied, Unreachable
from isthmus.fabric.background import BackgroundRun
from isthmus.fabric.status import FabricStatus
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.link import read_documents
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.process.timings import Timings
from isthmus.model.state import LinkState
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


@pytest.fixture
def both(east: LocalCluster, west: LocalCluster, topic: Names) -> Configuration:
    """Two links of a topic each, named as their topics, with a hundred records."""
    names = topic("orders"), topic("clicks")
    for name in names:
        topics.create(east, name, partitions=2)
        produce(east, name)
    return configuration_of(*(link_of(east.cluster(), west.cluster(), name, name=name) for name in names))


def produce(east: LocalCluster, name: str) -> None:
    """A hundred records more."""
    topics.produce(east, name, [Given(b"k", b"v", [], SEPTEMBER)] * 100)


def until(condition: Callable[[], bool], *runs: BackgroundRun) -> None:
    """Wait for what the runs will do."""
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline, [str(run) for run in runs]
        time.sleep(0.1)


def copied(run: BackgroundRun) -> int:
    """The records that a run has copied."""
    return sum(link.records for link in run.status())


def has_controller(west: LocalCluster, link: str) -> bool:
    """Whether the ledger says that a controller runs the link."""

    async def look() -> bool:
        async with Client(west.cluster()) as client:
            return ControllerDocument.key_of(link) in dict(await read_documents(client, link))

    return asyncio.run(look())


def test_links_run_beside_one_another(
    both: Configuration, spark: SparkSession, east: LocalCluster, west: LocalCluster
) -> None:
    """A handle each, in one session, also where an event loop runs: each shows how it stands, and is stopped alone, in
    good order. The session stays, and signals do what they did.
    """
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    one, other = (link.name for link in both.links)

    async def cell() -> BackgroundRun:
        return isthmus.spark.start(spark, both, link=one)

    first = asyncio.run(cell())
    with isthmus.spark.start(spark, both, link=other) as second:
        with pytest.raises(Occupied, match="2 links are run by this process already: "):
            isthmus.spark.start(spark, both)
        with pytest.raises(Occupied, match=f"1 link is run by this process already: {one}"):
            isthmus.spark.start(spark, both, link=one)
        until(lambda: copied(first) == copied(second) == 100, first, second)
        with pytest.raises(GateNotMet, match=f"run of {one} has not ended within 0.1 s"):
            first.await_termination(0.1)
        assert "is active" in first._repr_html_()

        outcome = first.stop()
        assert (outcome.exit_code, outcome.records, first.is_active, first.exception()) == (0, 100, False, None)
        assert first.stop() is outcome
        assert not has_controller(west, one)
        produce(east, other)
        until(lambda: copied(second) == 200, second)
        assert second.is_active
    assert second.outcome is not None
    assert second.outcome.records == 200
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert spark.range(3).count() == 3

    again = isthmus.spark.start(spark, both, until="caught-up")
    assert again.await_termination(TERM_S).is_caught_up
    assert {oracle.assert_same(east, west, name, partitions=2) for name in (one, other)} == {100, 200}


def test_a_status_is_a_frame(both: Configuration, spark: SparkSession) -> None:
    """A row for each partition, typed; the same columns where there is none; and so is a plan."""
    name = both.links[0].name
    fabric = isthmus.open(both, spark=spark)
    planned = fabric.plan(link=name).to_spark(spark).collect()
    assert [(row.topic, row.action, row.partitions, row.records_to_copy) for row in planned] == [
        (name, "create", 2, 100)
    ]
    assert isthmus.spark.run(spark, both, link=name, until="caught-up").is_caught_up

    frame = fabric.status(link=name).to_spark(spark)
    rows = frame.orderBy("partition").collect()
    assert [(row.link, row.topic, row.partition, row.source_end, row.lag_records) for row in rows] == [
        (name, name, 0, 100, 0),
        (name, name, 1, 0, 0),
    ]
    assert frame.where("lag_records > 0 or problem_code is not null").count() == 0
    empty = FabricStatus().to_spark(spark)
    assert (empty.schema, empty.count()) == (frame.schema, 0)


def test_a_run_is_succeeded_in_its_own_process(both: Configuration, spark: SparkSession, east: LocalCluster) -> None:
    """By one that takes the link over, which ends the first with that error, and by one that stands by for its end."""
    name = both.links[0].name
    first = isthmus.spark.start(spark, both, link=name)
    until(lambda: copied(first) == 100, first)
    with isthmus.spark.start(spark, both, link=name, take_over=True) as second:
        with pytest.raises(Fenced):
            first.await_termination(TERM_S)
        assert isinstance(first.exception(), Fenced)
        assert f"{name} has ended" in str(first)
        with isthmus.spark.start(spark, both, link=name, standby=True) as third:
            until(lambda: [link.state for link in third.status()] == [LinkState.STANDBY], third)
            assert second.stop().exit_code == 0
            produce(east, name)
            until(lambda: copied(third) == 100, third)


def test_errors_are_raised_where_the_run_is_awaited(both: Configuration, spark: SparkSession) -> None:
    """Those of the configuration at once; those that end a run by the handle, which shows them too."""
    with pytest.raises(ConfigError, match="nothing"):
        isthmus.spark.start(spark, both, link="nothing")
    nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
    away = configuration_of(link_of(nowhere, both.links[0].target, "orders", name="away"))
    run = isthmus.spark.start(spark, replace(away, timings=Timings(arrival_s=1.0)), until="caught-up")
    with pytest.raises(Unreachable):
        run.await_termination(TERM_S)
    with pytest.raises(Unreachable):
        run.stop()
    assert isinstance(run.exception(), Unreachable)
    assert "away has ended: " in str(run)
    with pytest.raises(ZeroDivisionError), isthmus.spark.start(spark, away) as doomed:
        1 / 0  # noqa: B018
    assert not doomed.is_active


def test_a_program_may_end_without_a_stop(both: Configuration, west: LocalCluster, tmp_path: Path) -> None:
    """Its run ends in good order all the same: nobody has to wait for the silence of its controller."""
    name = both.links[0].name
    file = tmp_path / "isthmus.yaml"
    addresses = [f'{each.alias}: {{bootstrap_servers: "{each.bootstrap_servers[0]}"}}' for each in both.clusters]
    file.write_text(
        f"clusters: {{{', '.join(addresses)}}}\nledger: {{replication_factor: 1}}\n"
        f'links: [{{name: {name}, source: east, target: west, topics: {{include: ["{name}"]}}}}]\n'
    )
    program = f"""
import time, isthmus
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session
run = isthmus.spark.start(session(SparkSettings(master="local[3]")), {str(file)!r})
while sum(link.records for link in run.status()) < 100:
    time.sleep(0.1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TERM_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert not has_controller(west, name)


def test_a_session_that_is_stopped_ends_its_runs(both: Configuration, spark: SparkSession) -> None:
    """With an error that says so; another run in it is refused for the same reason."""
    run = isthmus.spark.start(spark, both)
    until(lambda: copied(run) == 200, run)
    spark.stop()
    with pytest.raises(HostError, match="the Spark session was stopped"):
        run.await_termination(TERM_S)
    assert "the Spark session was stopped" in str(run)
    with pytest.raises(HostError, match="the Spark session was stopped"):
        isthmus.spark.start(spark, both)
