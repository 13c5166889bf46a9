"""A gateway of two processes holds for a synchronous link as one: each says what it does, and counts by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import open_fabric
from isthmus.local import LocalCluster
from isthmus.model.links.pair import PairState
from testing.brokers.proxy import HOST, Proxy, Weather
from testing.gateways.command import served_by
from testing.gateways.gateways import free_range
from testing.links.synchronous import Trial, Writer, begun, reached_through, run_beside
from testing.patience import TERM_S
from testing.records import oracle
from testing.runs.command import start

pytestmark = pytest.mark.integration
MANY = 12
"""So many producers, and each with connections of its own, are hardly ever served by one process alone."""


@contextmanager
def gateway(east: LocalCluster, guarded: LocalCluster, log: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The command with two processes, and its port."""
    port, deadline = free_range(1), time.monotonic() + TERM_S
    clusters = ("-b", f"east={east.bootstrap_servers}", "-b", f"guarded={guarded.admin_bootstrap_servers}")
    where = ("--listen", f"{HOST}:{port}-{port}", "--advertise", f"{HOST}:{port}", "--processes", "2")
    with log.open("wb") as told, start(*clusters, "gateway", "east", *where, stderr=told) as run:
        while log.read_text().count(f"are behind {HOST}:{port}") < 2:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        try:
            yield port, run
        finally:
            run.send_signal(signal.SIGTERM)
    assert run.returncode == 128 + signal.SIGTERM, log.read_text()


def write(trial: Trial, writer: Writer) -> None:
    """Have many producers write a record each, all of them acknowledged and none too early."""
    before = len(writer.acknowledged)
    for _ in range(MANY):
        writer.write(trial.topic)
    assert (len(writer.acknowledged) - before, writer.errors, writer.broken) == (MANY, [], [])


def commit(trial: Trial, port: int, number: int) -> None:
    """A transaction over both partitions is at the follower when its commit is answered."""
    producer = Producer({"bootstrap.servers": f"{HOST}:{port}", "transactional.id": f"{trial.name}-{number}"})
    producer.init_transactions(TERM_S)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(trial.topic, b"committed", partition=partition)
    producer.commit_transaction(TERM_S)
    seen = oracle.records(trial.follower.admin_bootstrap_servers, trial.topic, partitions=2)
    assert [[each.value for each in part].count(b"committed") for part in seen] == [number, number]


def holds(trial: Trial, proxy: Proxy, port: int, command: subprocess.Popen[bytes]) -> None:
    """In sync with both, also when one has died and another has come; cut off, both let go and say so."""
    trial.mode("sync")
    trial.stands(PairState.IN_SYNC)
    found = open_fabric(trial.direct, declared=True).gateways("east")
    (one,) = [each for each in found.gateways if each.address == f"{HOST}:{port}"]
    assert (one.heard, one.silent) == (2, 0)
    writer = Writer(port, trial.follower, trial.given_up)
    write(trial, writer)
    commit(trial, port, 1)

    former = served_by(command)
    os.kill(min(former), signal.SIGKILL)
    write(trial, writer)
    commit(trial, port, 2)
    while not served_by(command) - former:
        time.sleep(0.1)
    trial.stands(PairState.IN_SYNC)
    write(trial, writer)

    trial.fabric.declarations.update(trial.name, settings={"sync.lag_max_ms": 1000})
    with proxy.weather(Weather.CUT):
        writer.write(trial.topic)
        trial.stands(PairState.OUT_OF_SYNC)
        write(trial, writer)
        assert [each.offset for each in trial.given_up()] == [writer.acknowledged[-MANY - 1]]
    trial.stands(PairState.IN_SYNC)
    assert trial.given_up() == ()
    write(trial, writer)
    commit(trial, port, 3)


def test_two_processes(east: LocalCluster, guarded: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    """No acknowledgement of either is given that is neither at the follower nor written down."""
    trial = begun("processes", east, guarded, partitions=2)

    def scenario(proxy: Proxy) -> None:
        trial.stands(PairState.FOLLOWING)
        trial.is_refused()
        with gateway(east, guarded, tmp_path / "log") as (port, command):
            holds(trial, proxy, port, command)
        trial.mode("async")

    with reached_through(trial) as (through, proxy):
        run_beside(trial, spark, partial(scenario, proxy), through)
