"""A whole Kafka cluster of child JVMs on loopback."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from isthmus.cluster.local.broker import READY_TERM_S, Launcher, LocalBroker
from isthmus.cluster.local.folders import exclusive, state_folder, write_atomic
from isthmus.cluster.local.jars import Progress
from isthmus.cluster.local.layout import HOST, Layout, Ports, layout_from_json
from isthmus.cluster.local.ports import free_ports
from isthmus.cluster.local.process import State
from isthmus.cluster.local.template import new_id
from isthmus.errors import ConfigError, PlanRefused
from isthmus.model.cluster import Cluster

KAFKA_VERSION: Final = "4.4.0"
BROKERS_MAX: Final = 9
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_CONTROLLER_PORT: Final = 50
_FREE_PORT_TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker as it is now."""

    node_id: int
    address: str
    state: State
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One local cluster as it is now: `running` with all of its brokers, `stopped` with none, else
    `degraded`.
    """

    name: str
    state: Literal["running", "degraded", "stopped"]
    cluster_id: str
    kafka_version: str
    secure: bool
    bootstrap_servers: str
    admin_bootstrap_servers: str
    folder: str
    brokers: tuple[BrokerStatus, ...]


class LocalCluster:
    """A real KRaft cluster on 127.0.0.1, every broker a JVM of its own.

        with LocalCluster.start("east") as east:
            print(east.bootstrap_servers)

    Its brokers end with this process, however that ends, unless the cluster is `detached`: then
    they go on, and `LocalCluster.find(name)` reaches them from any process of the same user.
    """

    def __init__(self, launcher: Launcher, *, temporary: bool = False) -> None:
        self._launcher = launcher
        self._temporary = temporary
        self.brokers = tuple(LocalBroker(launcher, node) for node in range(1, len(launcher.layout.nodes) + 1))

    @classmethod
    def start(
        cls,
        name: str,
        *,
        brokers: int = 3,
        base_port: int | None = None,
        properties: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        heap_mb: int = 512,
        fast_start: bool = True,
        detached: bool = False,
        wait: bool = True,
        progress: Progress | None = None,
    ) -> Self:
        """Start a cluster, or what is missing of one that is there already, and wait until clients
        are served.

        Brokers listen on `base_port`, `base_port + 1` and so on, controllers 50 above; without
        `base_port` on free ports. `properties` go into every broker's `server.properties`.
        `data_dir` holds the cluster's data and description: by default a folder in the user's state
        folder when `detached`, else a temporary one that goes with the cluster. `fast_start` limits
        the JVM to its quick compiler: right for tests, wrong for benchmarks. With `wait=False` call
        `wait_until_ready` yourself, and `detach` after it for a detached cluster. `progress` is
        called while jars are fetched.

        :raises JavaMissing: There is no Java 17 or newer.
        :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
        :raises PortBusy: A port asked for is taken.
        :raises PlanRefused: A cluster of this name is there already and differs from what is asked
            for.
        :raises HostError: A broker ended while it started, or was not ready in time.
        """
        asked = _layout(name, brokers, base_port, dict(properties or {}), heap_mb, fast_start)
        temporary = data_dir is None and not detached
        folder = data_dir or (Path(tempfile.mkdtemp(prefix=f"isthmus-{name}-")) if temporary else state_folder() / name)
        lock = folder.with_name(f".{folder.name}.lock")
        with nullcontext() if temporary else exclusive(lock):
            layout = _settle(asked, folder, ports_matter=base_port is not None)
            cluster = cls(Launcher(layout, folder, progress), temporary=temporary)
            try:
                cluster._start_all(wait=wait, detached=detached)
            except BaseException:
                cluster.stop(wipe=temporary)
                raise
        return cluster

    @classmethod
    def find(cls, name: str, *, data_dir: Path | None = None) -> Self | None:
        """The cluster of this name that was started before, running or not; `None` if there is
        none.
        """
        folder = data_dir or state_folder() / name
        try:
            text = (folder / "cluster.json").read_text()
        except FileNotFoundError:
            return None
        return cls(Launcher(layout_from_json(text), folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"LocalCluster({self.name!r}, {self.bootstrap_servers}, {self.describe().state})"

    @property
    def name(self) -> str:
        return self._launcher.layout.name

    @property
    def cluster_id(self) -> str:
        return self._launcher.layout.cluster_id

    @property
    def folder(self) -> Path:
        """Data, settings and logs of the brokers, and the cluster's description."""
        return self._launcher.folder

    @property
    def bootstrap_servers(self) -> str:
        """The addresses clients are meant to use, separated by commas."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def admin_bootstrap_servers(self) -> str:
        """The PLAINTEXT listeners, on which everybody is a super user; the same as above in an open
        cluster.
        """
        return ",".join(f"{HOST}:{broker.admin_port}" for broker in self.brokers)

    def cluster(self) -> Cluster:
        """How Isthmus reaches this cluster."""
        return Cluster(alias=self.name, bootstrap_servers=tuple(self.bootstrap_servers.split(",")))

    def broker(self, node_id: int) -> LocalBroker:
        """The broker with this node id (1-based)."""
        return self.brokers[node_id - 1]

    def wait_until_ready(self, *, term_s: float = READY_TERM_S) -> None:
        """Wait until every broker answers clients and knows all the others.

        :raises HostError: A broker ended, or the term passed.
        """
        for broker in self.brokers:
            broker.wait_until_ready(peers=len(self.brokers), term_s=term_s)

    def detach(self) -> None:
        """Let the brokers outlive this process."""
        self._launcher.release()

    def stop(self, *, wipe: bool = False) -> None:
        """End all brokers: in order when the data is kept, at once when it is wiped. Returns when
        all are gone.
        """
        wipe = wipe or self._temporary
        if not wipe:
            self._terminate_all()
        for broker in self.brokers:
            broker.kill()
        self._launcher.end()
        if wipe:
            shutil.rmtree(self.folder, ignore_errors=True)

    def describe(self) -> ClusterStatus:
        """The cluster as it is now."""
        layout = self._launcher.layout
        brokers = tuple(
            BrokerStatus(node_id=broker.node_id, address=broker.address, state=broker.state, pid=broker.pid)
            for broker in self.brokers
        )
        running = sum(broker.state == "running" for broker in brokers)
        stopped = all(broker.state == "gone" for broker in brokers)
        return ClusterStatus(
            name=layout.name,
            state="running" if running == len(brokers) else "stopped" if stopped else "degraded",
            cluster_id=layout.cluster_id,
            kafka_version=layout.kafka_version,
            secure=layout.secure,
            bootstrap_servers=self.bootstrap_servers,
            admin_bootstrap_servers=self.admin_bootstrap_servers,
            folder=str(self.folder),
            brokers=brokers,
        )

    def _start_all(self, *, wait: bool, detached: bool) -> None:
        for broker in self.brokers:
            broker.start(wait=False)
        if wait:
            self.wait_until_ready()
            if detached:
                self.detach()

    def _terminate_all(self) -> None:
        for broker in self.brokers:
            broker.terminate(wait=False)
        for broker in self.brokers:
            broker.terminate()


def status(names: Iterable[str] | None = None) -> list[ClusterStatus]:
    """The detached clusters of this user, or those of these names that exist, by name."""
    wanted = sorted({file.parent.name for file in state_folder().glob("*/cluster.json")}) if names is None else names
    found = (LocalCluster.find(name) for name in wanted)
    return [cluster.describe() for cluster in found if cluster is not None]


def _layout(
    name: str,
    brokers: int,
    base_port: int | None,
    properties: dict[str, str],
    heap_mb: int,
    fast_start: bool,
) -> Layout:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a local cluster",
            field="name",
            hint="Use lower-case letters, digits, dots and dashes.",
        )
    if not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(
            f"{brokers} brokers were asked for",
            field="brokers",
            hint=f"Ask for 1 to {BROKERS_MAX}.",
        )
    return Layout(
        name=name,
        cluster_id=new_id(),
        kafka_version=KAFKA_VERSION,
        nodes=_ports(brokers, base_port),
        properties=properties,
        heap_mb=heap_mb,
        fast_start=fast_start,
    )


def _ports(brokers: int, base_port: int | None) -> tuple[Ports, ...]:
    if base_port is None:
        free = free_ports(2 * brokers)
        return tuple(Ports(plaintext=free[2 * node], controller=free[2 * node + 1]) for node in range(brokers))
    return tuple(
        Ports(plaintext=base_port + node, controller=base_port + _CONTROLLER_PORT + node) for node in range(brokers)
    )


def _settle(asked: Layout, folder: Path, *, ports_matter: bool) -> Layout:
    """The layout to run: the one in `folder` if it agrees with what is asked for, else `asked`,
    written down there.
    """
    try:
        kept = layout_from_json((folder / "cluster.json").read_text())
    except FileNotFoundError:
        kept = asked
    wanted = replace(asked, cluster_id=kept.cluster_id, nodes=asked.nodes if ports_matter else kept.nodes)
    fixed = replace(kept, heap_mb=asked.heap_mb, fast_start=asked.fast_start)
    if wanted != fixed or len(asked.nodes) != len(kept.nodes):
        raise PlanRefused(
            f"a local cluster {asked.name} is there already, other than asked for",
            hint=f"Remove it first: `isthmus local down --clusters {asked.name} --wipe`.",
        )
    write_atomic(folder / "cluster.json", wanted.to_json(), mode=0o600)
    return wanted
