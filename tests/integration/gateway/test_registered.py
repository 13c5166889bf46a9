"""Gateways as ledgers know them: who is heard, who has ended, and who leads clients to other brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from isthmus.fabric.fabric import open_fabric
from isthmus.ledger.documents.kinds import GatewayDocument
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.registered import GatewaysReport, RegisteredGateway
from testing.gateways.gateways import HOST, free_range
from testing.gateways.registered import elsewhere, movable, written
from testing.patience import TERM_S, UNFENCED
from testing.runs.command import run, start
from tests.conftest import HEAP_MB

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def east() -> Iterator[LocalCluster]:
    """One of which no ledger has links that other tests left: for these, gateways that have ended stay in it."""
    with LocalCluster.start("east", brokers=1, heap_mb=HEAP_MB, properties=UNFENCED) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def west() -> Iterator[LocalCluster]:
    """Another one."""
    with LocalCluster.start("west", brokers=1, heap_mb=HEAP_MB, properties=UNFENCED) as cluster:
        yield cluster


def report(*clusters: LocalCluster) -> GatewaysReport:
    """What is shown of all gateways."""
    configuration = Configuration(clusters=tuple(each.cluster() for each in clusters), links=())
    return open_fabric(configuration, declared=True).gateways()


def shown(address: str, *clusters: LocalCluster) -> list[RegisteredGateway]:
    """What is shown of a gateway."""
    return [each for each in report(*clusters).gateways if each.address.startswith(address)]


def command(*clusters: LocalCluster) -> list[str]:
    """The command, for these clusters."""
    aliases = [each.cluster().alias for each in clusters]
    named = zip(aliases, (each.bootstrap_servers for each in clusters), strict=True)
    return [*(word for alias, servers in named for word in ("-b", f"{alias}={servers}")), "gateway"]


@contextmanager
def serving(
    port: int, *clusters: LocalCluster, ports: int = 2, options: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """The command that serves the first of these clusters, until the block ends."""
    where = ("--listen", f"{HOST}:{port}-{port + ports - 1}", "--advertise", f"{HOST}:{port}")
    with start(*command(*clusters), "east", *where, *options, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        while "are behind" not in (line := running.stderr.readline()):
            assert line
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)


@contextmanager
def beating(cluster: LocalCluster, one: GatewayDocument) -> Iterator[None]:
    """It lives until the block ends."""
    ends = threading.Event()

    def beat() -> None:
        count = 0
        while not ends.wait(0.3):
            count += 1
            written(cluster, replace(one, beat=count))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_one_that_has_ended_is_silent_whatever_its_clock_showed(east: LocalCluster) -> None:
    """It was an hour ahead: what it wrote last seems to be new for as long."""
    ended = elsewhere("ahead.example:19092")
    written(east, ended, movable(ended, east), at_ms=int(time.time() * 1000) + 3_600_000)

    (one,) = shown("ahead.example", east)

    assert (one.heard, one.silent, one.is_silent) == (0, 1, True)
    open_fabric(Configuration(clusters=(east.cluster(),), links=())).forget_gateway("east", ended.gateway)
    assert shown("ahead.example", east) == []


def test_an_operator_says_that_one_has_ended(east: LocalCluster, west: LocalCluster) -> None:
    """The command names what is not clear, asks, and takes what it is given out of all ledgers."""
    first, second = elsewhere("twice.example:19092"), elsewhere("twice.example:19092")
    second = replace(second, pid=8)
    for one in (first, second):
        written(east, one, movable(one, east))
        written(west, movable(one, east))

    def forget(gateway: str, *options: str) -> tuple[int, str]:
        done = run(*command(east, west), "forget", "east", gateway, "-o", "json", *options)
        return done.returncode, done.stdout + done.stderr

    code, told = forget("twice.example:19092", "--yes")
    assert (code, first.gateway in told, second.gateway in told) == (2, True, True)
    code, told = forget("nowhere.example:19092", "--yes")
    assert code == 2
    code, told = forget(first.gateway)
    assert (code, "stdin is no terminal" in told) == (2, True)

    code, told = forget(first.gateway[:10], "--dry-run")
    would: dict[str, Any] = json.loads(told)
    assert (code, would["gateway"]["ids"], would["ledgers"]) == (0, [first.gateway], ["east", "west"])
    assert len(shown("twice.example", east, west)) == 2
    assert forget(first.gateway[:10], "--yes")[0] == 0
    (left,) = shown("twice.example", east, west)
    assert left.ids == (second.gateway,)
    assert forget("twice.example:19092", "--yes")[0] == 0
    assert shown("twice.example", east, west) == []


def test_one_of_a_lost_cluster_is_forgotten_where_it_could_move_clients_to(
    east: LocalCluster, west: LocalCluster
) -> None:
    """Nobody answers for its own cluster any more, and the other one would wait for its word."""
    ended = elsewhere("lost.example:19092")
    written(west, movable(ended, east))

    (one,) = shown("lost.example", west)

    assert (one.cluster, one.is_silent) == ("", True)
    open_fabric(Configuration(clusters=(west.cluster(),), links=())).forget_gateway("west", ended.gateway)
    assert shown("lost.example", west) == []


def test_one_that_runs_is_not_forgotten(east: LocalCluster, west: LocalCluster) -> None:
    """Neither while it is heard, nor while its process stands still on this host."""
    port = free_range(2)
    forget = [*command(east, west), "forget", "east", f"{HOST}:{port}", "--yes"]

    def refused() -> str:
        done = run(*forget)
        assert done.returncode == 6, done.stderr
        return done.stderr

    with serving(port, east, west) as running:
        assert "has not ended" in refused()
        running.send_signal(signal.SIGSTOP)
        try:
            assert f"kill {running.pid}" in refused()
        finally:
            running.send_signal(signal.SIGCONT)
        (one,) = shown(f"{HOST}:{port}", east, west)
        assert (one.heard, one.silent) == (1, 0)
    assert shown(f"{HOST}:{port}", east, west) == []


def test_a_gateway_that_was_killed_is_found_by_the_one_that_is_started_again(
    east: LocalCluster, west: LocalCluster
) -> None:
    """On its host it is certain that it has ended: all ledgers are without it, and nobody has to say so."""
    port = free_range(2)
    with serving(port, east, west) as killed:
        (before,) = shown(f"{HOST}:{port}", east, west)
        os.kill(killed.pid, signal.SIGKILL)
    with serving(port, east, west):
        deadline = time.monotonic() + TERM_S
        while before.ids[0] in {one for each in shown(f"{HOST}:{port}", east, west) for one in each.ids}:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_gateways_of_one_address_that_lead_to_other_brokers_are_shown(
    east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The first port of one stands for another broker than that of the other; the log of each says so as well."""
    port = free_range(3)
    address = f"{HOST}:{port}"
    with serving(port, east, ports=3, options=("--first-node", "0")) as running:
        (one,) = shown(address, east)
        assert one.places is not None
        assert (one.places.ports, one.places.first_node) == (3, 0)
        other = replace(elsewhere(address), ports=(7, 9), first_node=1)
        written(east, other)
        assert report(east).clashes == (), "that one is silent"
        with beating(east, other):
            (told,) = report(east).clashes
        assert "first for broker 0" in told
        assert "first for broker 1" in told
        assert running.stderr is not None
        while "has our address" not in (line := running.stderr.readline()):
            assert line
    open_fabric(Configuration(clusters=(east.cluster(),), links=())).forget_gateway("east", other.gateway)
