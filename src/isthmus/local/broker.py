"""One broker of a local cluster: a JVM that can be started, ended, killed, paused and resumed."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isthmus.local.folders import write_atomic
from isthmus.local.layout import HOST, Layout
from isthmus.local.ports import require_free
from isthmus.local.probe import knows
from isthmus.local.process import READY_TERM_S, Process, ProcessGuard, State, start_failure
from isthmus.local.properties import server_properties
from isthmus.local.security import Credentials
from isthmus.local.template import ClusterTemplate, kafka_template

_STOP_TERM_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker as it is now."""

    node_id: int
    address: str
    state: State
    pid: int | None


class Launcher:
    """Start the brokers of one cluster from a template, and under a guard.

    The guard ends them with this process, unless they are released: those of a `detached` cluster are to be, once they
    are ready.
    """

    def __init__(
        self, layout: Layout, folder: Path, *, detached: bool, template: ClusterTemplate | None = None
    ) -> None:
        self.layout = layout
        self.folder = folder
        self.detached = detached
        self._template = template
        self._guard: ProcessGuard | None = None

    @property
    def template(self) -> ClusterTemplate:
        if self._template is None:
            self._template = kafka_template()
        return self._template

    def launch(self, node_id: int) -> Process:
        """Start the JVM of a node; its data folder is made when it has none."""
        layout, node = self.layout, self.folder / f"node-{node_id}"
        self.template.format(node / "data", node_id=node_id, cluster_id=layout.cluster_id)
        settings = node / "server.properties"
        text = server_properties(layout, node_id, node, self._security())
        write_atomic(settings, text, mode=0o600)
        jvm = self.template.jvm
        command = jvm.command("kafka.Kafka", str(settings), heap_mb=layout.heap_mb, fast_start=layout.fast_start)
        if self._guard is None:
            self._guard = ProcessGuard()
        return self._guard.spawn(command, environment=jvm.environment, log=node / "server.log")

    @property
    def credentials(self) -> Credentials:
        """The users of a secured cluster; made when its first broker starts."""
        return Credentials(self.folder / "security")

    def _security(self) -> dict[str, str]:
        if not self.layout.secure:
            return {}
        self.credentials.make(self.template.jvm.java)
        return self.credentials.broker_properties(self.layout.client_ca_file)

    def release(self) -> None:
        """Let the brokers started so far outlive this process."""
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def end(self) -> None:
        """Kill the brokers started since the last release."""
        if self._guard is not None:
            self._guard.end()
            self._guard = None


class LocalBroker:
    """One node of a `LocalCluster`: broker and controller in one JVM, known by its node id.

    Every call reaches the process whichever process started it, and never another process that was given the same pid
    since.
    """

    def __init__(self, launcher: Launcher, node_id: int) -> None:
        self.node_id = node_id
        self._launcher = launcher
        self._ports = launcher.layout.nodes[node_id - 1]
        self.folder = launcher.folder / f"node-{node_id}"

    def __repr__(self) -> str:
        name = self._launcher.layout.name
        return f"LocalBroker({name} node {self.node_id} at {self.address}, {self.state})"

    @property
    def port(self) -> int:
        """The port for clients: SASL_SSL in a secured cluster, else PLAINTEXT."""
        return self._ports.sasl_ssl or self._ports.plaintext

    @property
    def admin_port(self) -> int:
        """The port of the PLAINTEXT listener, on which everybody is a super user."""
        return self._ports.plaintext

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """The output of the JVM since its last start; `server.log.previous` is from the one before."""
        return self.folder / "server.log"

    @property
    def pid(self) -> int | None:
        """The process id, `None` while the broker does not run."""
        process = self._process
        return None if process is None else process.pid

    @property
    def state(self) -> State:
        process = self._process
        return "stopped" if process is None else process.state

    def describe(self) -> BrokerStatus:
        """The broker as it is now."""
        process = self._process
        return BrokerStatus(
            node_id=self.node_id,
            address=self.address,
            state="stopped" if process is None else process.state,
            pid=None if process is None else process.pid,
        )

    def start(self, *, wait: bool = True) -> None:
        """Start the broker, and with `wait` until it serves clients; do nothing when it runs.

        :raises PortBusy: Something else took one of its ports.
        :raises HostError: The JVM ended, or the broker was not ready in time.
        """
        if self.state == "stopped":
            require_free(self._ports.all, self._launcher.layout.name)
            process = self._launcher.launch(self.node_id)
            document = {"pid": process.pid, "started_ticks": process.started_ticks}
            write_atomic(self._process_file, json.dumps(document) + "\n")
        if wait:
            self.wait_until_ready()
            if self._launcher.detached:
                self._launcher.release()

    def wait_until_ready(self, *, peers: int = 1, term_s: float = READY_TERM_S) -> None:
        """Wait until the broker serves clients and knows `peers` live brokers, itself included.

        :raises PortBusy: The broker could not listen on one of its ports.
        :raises HostError: The JVM ended, or the term passed.
        """
        process, name = self._process, self._launcher.layout.name

        def ready() -> bool:
            return knows(self.admin_port, self.node_id, cluster=name) >= peers

        if process is None or not process.wait_until(ready, term_s):
            raise start_failure(f"broker {self.node_id} of {name}", process, self.log_file, term_s)

    def terminate(self, *, wait: bool = True) -> None:
        """End the broker in order (SIGTERM): its partitions' leaders move away first.

        With `wait` this returns when it has ended, after 30 s by force.
        """
        process = self._process
        if process is not None:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
            if wait and not process.wait_stopped(_STOP_TERM_S):
                self.kill()

    def kill(self) -> None:
        """End the broker at once (SIGKILL); returns when it has ended."""
        process = self._process
        if process is not None:
            process.send(signal.SIGKILL)
            process.wait_stopped(_STOP_TERM_S)

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): its connections stay open and nothing answers."""
        process = self._process
        if process is not None:
            process.send(signal.SIGSTOP)
            process.wait_paused(_STOP_TERM_S)

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        process = self._process
        if process is not None:
            process.send(signal.SIGCONT)

    @property
    def _process_file(self) -> Path:
        return self.folder / "process.json"

    @property
    def _process(self) -> Process | None:
        try:
            document = json.loads(self._process_file.read_text())
        except FileNotFoundError:
            return None
        process = Process(pid=document["pid"], started_ticks=document["started_ticks"])
        return None if process.state == "stopped" else process
