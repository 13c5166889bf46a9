"""Two clusters, a link, `isthmus run`, two gateways before the source and their clients, each a process of its own.

Whoever belongs to Isthmus reaches each broker through a network of its own, which can be cut, slow, or lose answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.local.ports import free_ports, is_free
from soak.gateway.conditions import Conditions, Kind
from soak.gateway.ledger import LedgerWatch
from soak.history import History
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.mirror import Supervisor
from soak.network import Network
from testing.brokers.proxy import HOST
from testing.runs.command import COMMAND, ROOT

SIDES: Final = ("source", "target")
GATEWAYS: Final = ("gateway-1", "gateway-2")
BROKERS: Final = 3
"""Of each cluster, where nobody asks for fewer."""
READY_S: Final = 600.0
_WHO: Final = ("run", "operator", *GATEWAYS)
_POLL_S: Final = 0.3
_CONNECT_S: Final = 1.0
_END_S: Final = 30.0
_HEAP_MB: Final = 256
_SAID: Final = 2_000
_JAVA_MB: Final = 64
_HELPER_S: Final = 240.0
_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
_PROPERTIES: Final = {
    # Else transactions cannot be whole.
    "transaction.partition.verification.enable": "false",
    # Leaders move when a fault moves them.
    "auto.leader.rebalance.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    # On a machine that does much else, nobody is to be thought dead who is only slow.
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "6000",
}
Networks = Mapping[tuple[str, str], Sequence[Network]]
"""By whose they are and which cluster they lead to: one for each broker, in the order of their ids."""


@dataclass(slots=True, kw_only=True)
class Grounds:
    """The clusters and the networks: what several runs share."""

    clusters: Mapping[str, LocalCluster]
    networks: Networks
    admins: Mapping[str, AdminClient]
    """Who may do everything at a cluster. What a client was asked for it does not do when it is dropped meanwhile."""

    @property
    def brokers(self) -> int:
        """How many each cluster has."""
        return len(self.clusters["source"].brokers)

    def servers(self, side: str) -> str:
        """Where clients reach a cluster that go past all networks."""
        return self.clusters[side].admin_bootstrap_servers

    def configuration(self, who: str) -> dict[str, Any]:
        """The clusters as these reach them."""
        return {
            "clusters": {
                side: {
                    "bootstrap_servers": cluster.admin_bootstrap_servers,
                    "addresses": {
                        f"{HOST}:{broker.admin_port}": f"{HOST}:{network.port}"
                        for broker, network in zip(cluster.brokers, self.networks[who, side], strict=True)
                    },
                }
                for side, cluster in self.clusters.items()
            },
            "spark": {"master": "local[2]", "lease_term_s": 20},
            "ledger": {"replication_factor": self.brokers},
        }


@contextmanager
def grounds(brokers: int = BROKERS) -> Iterator[Grounds]:
    """Both clusters, ready, and all networks."""
    with ExitStack() as stack:
        clusters = {}
        for side in SIDES:
            clusters[side] = stack.enter_context(
                LocalCluster.start(
                    side,
                    brokers=brokers,
                    secure=side == "target",
                    heap_mb=_HEAP_MB,
                    properties=_PROPERTIES,
                    wait=False,
                )
            )
        for cluster in clusters.values():
            cluster.wait_until_ready(term_s=READY_S)
        networks = {}
        for who in _WHO:
            for side, cluster in clusters.items():
                ports = free_ports(brokers)
                networks[who, side] = [
                    stack.enter_context(Network(port, broker.admin_port))
                    for port, broker in zip(ports, cluster.brokers, strict=True)
                ]
        admins = {
            side: AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers, "log_level": 0})
            for side, cluster in clusters.items()
        }
        for cluster in clusters.values():
            _have_coordinators(cluster)
        yield Grounds(clusters=clusters, networks=networks, admins=admins)


def _have_coordinators(cluster: LocalCluster) -> None:
    """Have a cluster keep groups before anybody asks for their positions."""
    consumer = Consumer({"bootstrap.servers": cluster.admin_bootstrap_servers, "group.id": "first", "log_level": 0})
    deadline = time.monotonic() + READY_S
    while True:
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=READY_S)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
    consumer.close()


class GatewayProcess:
    """A gateway, which is started again when it is told to be."""

    def __init__(self, name: str, folder: Path, document: Mapping[str, Any], plants: Sequence[str]) -> None:
        self.name = name
        self._ports = len(document["clusters"]["source"]["addresses"])
        self.port = _free_range(self._ports)
        self._folder = folder
        self._file = folder / f"{name}.yaml"
        self._file.write_text(yaml.safe_dump(dict(document)))
        planted = (sys.executable, "-m", "soak.gateway.planted", ",".join(plants))
        self._command = planted if plants else COMMAND
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def server(self) -> str:
        """Where clients reach it."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, if it does not run, without waiting for it."""
        if self.is_running:
            return
        self._starts += 1
        last = self.port + self._ports - 1
        arguments = ("gateway", "serve", "source", "--listen", f"{HOST}:{self.port}-{last}", "--advertise", self.server)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "200"}
        with (self._folder / f"{self.name}-{self._starts}.log").open("wb") as output:
            self._process = subprocess.Popen(
                [*self._command, *arguments, "--first-node", "1", "-c", str(self._file)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def is_listening(self) -> bool:
        """Whether it takes connections."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), _CONNECT_S):
            return True
        return False

    def send(self, number: signal.Signals) -> None:
        """Signal it."""
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """Have it end by a signal, and wait for that."""
        self.send(number)
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@dataclass(slots=True, kw_only=True)
class Stage:
    """A run at work on the grounds."""

    link: str
    topic: str
    folder: Path
    grounds: Grounds
    conditions: Conditions
    history: History
    supervisor: Supervisor
    operator: Isthmus
    gateways: Mapping[str, GatewayProcess]
    watch: LedgerWatch
    clients: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def networks(self, who: str, side: str) -> Sequence[Network]:
        """Through which somebody reaches a cluster."""
        return self.grounds.networks[who, side]

    def until(self, condition: Callable[[], object], what: str, term_s: float) -> None:
        """Wait until something is so.

        :raises TimeoutError: It is not.
        """
        deadline = time.monotonic() + term_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not after {term_s:g} s")
            time.sleep(_POLL_S)

    def is_in_sync(self) -> bool:
        """Whether both gateways say that the link is in sync."""
        return self.watch.is_in_sync(len(self.gateways))

    def call(self, *arguments: str) -> str:
        """A command of an operator, which has to succeed.

        :raises RuntimeError: It did not.
        """
        done = self.operator.call(*arguments)
        self.history.tell(
            "command", arguments=arguments, code=done.returncode, said=(done.stdout + done.stderr)[-_SAID:]
        )
        if done.returncode:
            raise RuntimeError(f"isthmus {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def start_client(self, kind: Kind, seed: int) -> None:
        """Start a client of both gateways."""
        arguments = {
            "--software": kind.software,
            "--style": kind.style,
            "--name": kind.name,
            "--servers": ",".join(each.server for each in self.gateways.values()),
            "--follower": self.grounds.servers("target"),
            "--topic": self.topic,
            "--log": str(self.client_log(kind)),
            "--seed": str(seed),
            "--timeout-ms": str(dict(self.conditions.timeouts_ms)[kind.name]),
        }
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if kind.software == "java":
            jvm = jvm_for("tools-4.4.0")
            arguments["--java"] = json.dumps(jvm.command(_PRODUCER, heap_mb=_JAVA_MB))
            environment |= jvm.environment
        with (self.folder / f"client-{kind.name}.err").open("wb") as output:
            self.clients[kind.name] = subprocess.Popen(
                [sys.executable, "-m", "soak.gateway.client", *(part for pair in arguments.items() for part in pair)],
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def helper(self, name: str, *arguments: str) -> str:
        """What a module of this package prints, in a process of its own.

        :raises RuntimeError: It did not succeed.
        """
        command = [sys.executable, "-m", f"soak.gateway.{name}", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_HELPER_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr[-_SAID:]}")
        return done.stdout

    def client_log(self, kind: Kind) -> Path:
        """Where a client tells what it was told."""
        return self.folder / f"client-{kind.name}.jsonl"

    def end_clients(self, term_s: float) -> None:
        """Tell all to end; those that do not are killed, and what they were told is known all the same.

        :raises RuntimeError: One has ended by itself, so that nobody asked what it stands for.
        """
        dead = [f"{name} ({each.returncode})" for name, each in self.clients.items() if each.poll() is not None]
        for each in self.clients.values():
            each.terminate()
        deadline = time.monotonic() + term_s
        for each in self.clients.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(max(deadline - time.monotonic(), 0.1))
            if each.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(each.pid, signal.SIGKILL)
                each.wait()
        self.clients.clear()
        if dead:
            raise RuntimeError(f"clients have ended by themselves: {', '.join(dead)}")


def _free_range(size: int) -> int:
    while True:
        (first,) = free_ports(1)
        if all(is_free(first + index) for index in range(size)):
            return first
