"""Brokers from before KRaft: Kafka beside a ZooKeeper, to test compatibility."""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, Self

from isthmus.errors import HostError
from isthmus.local.folders import write_atomic
from isthmus.local.jvm import Jvm, jvm_for
from isthmus.local.layout import HOST
from isthmus.local.locks import LockName
from isthmus.local.ports import free_ports
from isthmus.local.probe import knows
from isthmus.local.process import READY_TERM_S, Process, ProcessGuard, start_failure
from isthmus.local.properties import as_text
from isthmus.local.security import USERS, Credentials
from isthmus.model.cluster import Cluster

Version = Literal["2.8.2", "3.9.1"]

_LOCKS: Final[dict[Version, LockName]] = {"2.8.2": "zk-2.8.2", "3.9.1": "zk-3.9.1"}
_HEAP_MB: Final = 256
_LOGINS: Final = "jaas.conf"
_END_TERM_S: Final = 10.0


class ZooKeeperModeCluster:
    """Brokers 0, 1, ... of an old version and their ZooKeeper on free ports; all end with this process.

    with ZooKeeperModeCluster.start("2.8.2") as old:
        print(old.bootstrap_servers, old.zookeeper_connect)

    Where it is `secure`, its ZooKeeper requires a login (SASL's DIGEST-MD5), over TLS at `secure_connect`.
    """

    def __init__(self, version: Version, jvm: Jvm, folder: Path, brokers: int, *, secure: bool = False) -> None:
        self.version: Version = version
        self.folder = folder
        self._jvm = jvm
        self._guard = ProcessGuard()
        self._zookeeper_port, self._secure_port, *self._ports = free_ports(2 + brokers)
        self.credentials = Credentials(folder / "credentials") if secure else None
        self._brokers: dict[int, Process] = {}

    @classmethod
    def start(cls, version: Version, *, brokers: int = 1, secure: bool = False) -> Self:
        """Start all and wait until clients are served.

        :raises JavaMissing: There is no Java 17 or newer.
        :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
        :raises HostError: One of them ended while it started, or was not ready in time.
        """
        jvm = jvm_for(_LOCKS[version])
        folder = Path(tempfile.mkdtemp(prefix=f"isthmus-zookeeper-{version}-"))
        cluster = cls(version, jvm, folder, brokers, secure=secure)
        try:
            if cluster.credentials is not None:
                cluster.credentials.make(jvm.java)
                _write_logins(cluster.credentials)
            cluster._start_zookeeper()
            for node_id in range(brokers):
                cluster._start_broker(node_id)
            cluster._wait_for_brokers()
        except BaseException:
            cluster._guard.end()
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    @property
    def zookeeper_connect(self) -> str:
        """The address of the ZooKeeper, for `zookeeper.connect`."""
        return f"{HOST}:{self._zookeeper_port}"

    @property
    def secure_connect(self) -> str:
        """The address of its port with TLS."""
        return f"{HOST}:{self._secure_port}"

    def cluster(self) -> Cluster:
        """Return this cluster for Isthmus."""
        return Cluster(alias=f"kafka-{self.version}", bootstrap_servers=tuple(self.bootstrap_servers.split(",")))

    def kill(self, node_id: int) -> None:
        """End one broker at once: ZooKeeper knows when its session has timed out."""
        self._brokers[node_id].send(signal.SIGKILL)
        self._brokers[node_id].wait_stopped(_END_TERM_S)

    def restart(self, node_id: int) -> None:
        """Start a broker that was killed, and wait until it serves clients again.

        :raises HostError: It ended while it started, or was not ready in time.
        """
        self._start_broker(node_id)
        self._wait(f"broker-{node_id}", self._brokers[node_id], partial(self._knows_all, node_id))

    def start_twin(self, node_id: int) -> str:
        """Start another broker with an id that is taken; return its output when it ends.

        :raises HostError: It does not end.
        """
        port, name = free_ports(1)[0], f"twin-of-{node_id}"
        twin = self._spawn("kafka.Kafka", name, self._settings(node_id, port, name))
        log = self.folder / f"{name}.log"
        if not twin.wait_stopped(READY_TERM_S):
            raise HostError(f"a second broker {node_id} of Kafka {self.version} goes on", hint=f"See {log}.")
        return log.read_text(errors="replace")

    def stop(self) -> None:
        """End all at once and remove their data."""
        self._guard.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_zookeeper(self) -> None:
        settings = {
            "dataDir": str(self.folder / "zookeeper"),
            "clientPort": str(self._zookeeper_port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok",
        }
        if self.credentials is not None:
            settings |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": str(self._secure_port),
                "secureClientPortAddress": HOST,
                **self.credentials.zookeeper_properties(),
                "ssl.clientAuth": "none",
                "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "enforce.auth.enabled": "true",
                "enforce.auth.schemes": "sasl",
            }
        server = self._spawn("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper", settings)
        self._wait("zookeeper", server, self._zookeeper_answers)

    def _start_broker(self, node_id: int) -> None:
        name = f"broker-{node_id}"
        settings = self._settings(node_id, self._ports[node_id], f"kafka-{node_id}")
        self._brokers[node_id] = self._spawn("kafka.Kafka", name, settings)

    def _settings(self, node_id: int, port: int, folder: str) -> dict[str, str]:
        listeners = f"PLAINTEXT://{HOST}:{port}"
        return {
            "broker.id": str(node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "log.dirs": str(self.folder / folder),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # Leaders move only on request, not when a new controller finds them elsewhere.
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "log.cleaner.dedupe.buffer.size": "8388608",
        }

    def _wait_for_brokers(self) -> None:
        for node_id, broker in self._brokers.items():
            self._wait(f"broker-{node_id}", broker, partial(self._knows_all, node_id))

    def _knows_all(self, node_id: int) -> bool:
        return knows(self._ports[node_id], node_id, cluster=self.version) == len(self._ports)

    def _zookeeper_answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._zookeeper_port), timeout=1.0) as asked:
                asked.sendall(b"ruok")
                return asked.recv(4) == b"imok"
        except OSError:
            return False

    def _spawn(self, main_class: str, name: str, settings: dict[str, str]) -> Process:
        file = self.folder / f"{name}.properties"
        file.write_text(as_text(settings))
        # Compression codecs unpack native libraries: into our folder, not where other processes tidy up.
        options = [f"-Djava.io.tmpdir={self.folder}"]
        if self.credentials is not None:
            options.append(f"-Djava.security.auth.login.config={self.credentials.folder / _LOGINS}")
        command = self._jvm.command(main_class, str(file), heap_mb=_HEAP_MB, options=options)
        return self._guard.spawn(command, environment=self._jvm.environment, log=self.folder / f"{name}.log")

    def _wait(self, name: str, process: Process, ready: Callable[[], bool]) -> None:
        if not process.wait_until(ready, READY_TERM_S):
            who = f"the {name} of Kafka {self.version}"
            raise start_failure(who, process, self.folder / f"{name}.log", READY_TERM_S)


def _write_logins(credentials: Credentials) -> None:
    """Write the users that may log in at the ZooKeeper, and the login of brokers."""
    passwords = {user: credentials.password(user).reveal() for user in USERS}
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    text = (
        f'Server {{ {module} {users}; }};\nClient {{ {module} username="admin" password="{passwords["admin"]}"; }};\n'
    )
    write_atomic(credentials.folder / _LOGINS, text, mode=0o600)
