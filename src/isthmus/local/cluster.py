"""A whole Kafka cluster of child JVMs on loopback."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from isthmus.config.reading.locked import exclusive
from isthmus.errors import ConfigError, HostError, PlanRefused, PortBusy
from isthmus.local.broker import BrokerStatus, Launcher, LocalBroker
from isthmus.local.folders import state_folder, write_atomic
from isthmus.local.jars import OnJars
from isthmus.local.layout import HOST, Layout, layout_from_json
from isthmus.local.ports import choose_ports
from isthmus.local.process import READY_TERM_S
from isthmus.local.security import Credentials, User, admit_users
from isthmus.local.template import kafka_template, new_id
from isthmus.model.cluster import Cluster, SaslMechanism

KAFKA_VERSION: Final = "4.4.0"
BROKERS_MAX: Final = 9
_BROKERS: Final = 3
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_DESCRIPTION: Final = "cluster.json"
_FREE_PORT_RETRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One local cluster now: `running` with all its brokers, `stopped` with none, or `degraded`.

    `password_file` is that of the user `isthmus`, and both files exist in a secured cluster only.
    """

    name: str
    state: Literal["running", "degraded", "stopped"]
    cluster_id: str
    kafka_version: str
    secure: bool
    bootstrap_servers: str
    admin_bootstrap_servers: str
    folder: str
    password_file: str | None
    ca_file: str | None
    brokers: tuple[BrokerStatus, ...]


class LocalCluster:
    """A real KRaft cluster on 127.0.0.1, every broker a JVM of its own.

        with LocalCluster.start("east") as east:
            print(east.bootstrap_servers)

    Its brokers end with this process, however that ends, unless the cluster is `detached`: then
    they go on, and `LocalCluster.find(name)` reaches them from any process of the same user.
    """

    def __init__(self, launcher: Launcher, *, temporary: bool = False) -> None:
        nodes = range(1, len(launcher.layout.nodes) + 1)
        self.brokers = tuple(LocalBroker(launcher, node) for node in nodes)
        self._launcher = launcher
        self._temporary = temporary

    @classmethod
    def start(
        cls,
        name: str,
        *,
        brokers: int | None = None,
        base_port: int | None = None,
        secure: bool | None = None,
        client_ca_file: Path | None = None,
        properties: Mapping[str, str] | None = None,
        node_properties: Sequence[Mapping[str, str]] | None = None,
        data_dir: Path | None = None,
        heap_mb: int = 512,
        fast_start: bool = True,
        detached: bool = False,
        wait: bool = True,
        progress: OnJars | None = None,
    ) -> LocalCluster:
        """Start a cluster, or what is missing of one that is there already, and wait for it.

        What is not given of its shape (`brokers`, ports, `secure`, `client_ca_file` and both kinds of properties) is
        as the cluster that is there has it; a new one gets 3 brokers on free ports, without security.

        Clients reach the brokers on `base_port`, `base_port + 1` and so on, other listeners lie
        within 60 ports above. `secure` asks for SASL_SSL and an authorizer (see
        `isthmus.local.security`), and `client_ca_file`, a PEM file, for a listener with
        mutual TLS besides. `properties` go into every `server.properties`, and the n-th of
        `node_properties` into that of node n. `fast_start` holds the JVM back to its quick compiler:
        right for tests, wrong for benchmarks.

        `data_dir` holds data and description of the cluster: by default a folder in the user's
        state folder for a `detached` cluster, else a temporary one that goes when it stops.
        With `wait=False` call `wait_until_ready`, and `detach` after it for a detached cluster.
        `progress` is called while jars are fetched.

        :raises ConfigError: The name, the number of brokers or the port cannot be used.
        :raises JavaMissing: There is no Java 17 or newer.
        :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
        :raises PortBusy: A port asked for is taken.
        :raises PlanRefused: A cluster of this name is there already, other than asked for.
        :raises HostError: A broker ended while it started, or was not ready in time.
        """
        wanted = {
            "secure": secure,
            "client_ca_file": str(client_ca_file.resolve()) if client_ca_file else None,
            "properties": None if properties is None else dict(properties),
            "node_properties": None if node_properties is None else tuple(map(dict, node_properties)),
        }
        shape = {key: value for key, value in wanted.items() if value is not None}
        settle = partial(_settle, _checked_name(name), _checked_count(brokers), base_port, shape)
        template = kafka_template(progress=progress)
        temporary = data_dir is None and not detached
        folder = data_dir or _folder(name, temporary=temporary)

        def start() -> LocalCluster:
            fresh = not (folder / _DESCRIPTION).exists()
            layout = replace(settle(_kept_layout(folder)), heap_mb=heap_mb, fast_start=fast_start)
            write_atomic(folder / _DESCRIPTION, layout.to_json(), mode=0o600)
            launcher = Launcher(layout, folder, detached=detached, template=template)
            cluster = cls(launcher, temporary=temporary)
            cluster._bring_up(fresh=fresh, wait=wait)
            return cluster

        with nullcontext() if temporary else exclusive(folder.with_name(f".{folder.name}.lock")):
            # Another process may be quicker to listen on a port that was free when it was chosen.
            for _ in range(_FREE_PORT_RETRIES if base_port is None else 0):
                with suppress(PortBusy):
                    return start()
            return start()

    @classmethod
    def find(cls, name: str, *, data_dir: Path | None = None) -> LocalCluster | None:
        """The cluster of this name that was started before, running or not; `None` without one."""
        folder = data_dir or state_folder() / _checked_name(name)
        layout = _kept_layout(folder)
        return None if layout is None else cls(Launcher(layout, folder, detached=True))

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
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
    def credentials(self) -> Credentials:
        """The users of a secured cluster: where their passwords and the certificate are."""
        return self._launcher.credentials

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, separated by commas."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def admin_bootstrap_servers(self) -> str:
        """The PLAINTEXT listeners, where everybody is a super user; in an open cluster as above."""
        return ",".join(f"{HOST}:{broker.admin_port}" for broker in self.brokers)

    @property
    def mutual_tls_bootstrap_servers(self) -> str:
        """The SSL listeners, which ask for a client certificate; empty if there are none."""
        nodes = self._launcher.layout.nodes
        return ",".join(f"{HOST}:{ports.ssl}" for ports in nodes if ports.ssl)

    def cluster(self, *, user: User = "isthmus", mechanism: SaslMechanism = "SCRAM-SHA-512") -> Cluster:
        """Return this cluster for Isthmus: with this user, if the cluster is secured."""
        servers = tuple(self.bootstrap_servers.split(","))
        if not self._launcher.layout.secure:
            return Cluster(alias=self.name, bootstrap_servers=servers)
        security = self.credentials.security(user, mechanism)
        return Cluster(alias=self.name, bootstrap_servers=servers, security=security)

    def admin_cluster(self) -> Cluster:
        """Return this cluster for Isthmus as a super user."""
        return Cluster(alias=self.name, bootstrap_servers=tuple(self.admin_bootstrap_servers.split(",")))

    def broker(self, node_id: int) -> LocalBroker:
        """The broker with this node id (1-based)."""
        return self.brokers[node_id - 1]

    def wait_until_ready(self, *, term_s: float = READY_TERM_S) -> None:
        """Wait until every broker answers clients and knows all the others, and users can log in.

        :raises HostError: A broker ended, or the term passed.
        """
        for broker in self.brokers:
            broker.wait_until_ready(peers=len(self.brokers), term_s=term_s)
        # Once only: a right that is taken away later stays away.
        admitted = self.credentials.folder / "admitted"
        if self._launcher.layout.secure and not admitted.exists():
            admit_users([broker.admin_port for broker in self.brokers], self.credentials, cluster=self.name)
            admitted.touch()

    def detach(self) -> None:
        """Let the brokers outlive this process."""
        self._launcher.release()

    def abandon(self) -> None:
        """End at once the brokers that this process started and has not detached."""
        self._launcher.end()

    def stop(self, *, wipe: bool = False) -> None:
        """End all brokers and return when they are gone.

        In order when the data is kept; at once when it is wiped, as that of a temporary cluster is.
        """
        wipe = wipe or self._temporary
        if not wipe:
            for broker in self.brokers:
                broker.terminate(wait=False)
            for broker in self.brokers:
                broker.terminate()
        for broker in self.brokers:
            broker.kill()
        self._launcher.end()
        if wipe:
            self._wipe()

    def describe(self) -> ClusterStatus:
        """The cluster as it is now."""
        layout = self._launcher.layout
        brokers = tuple(broker.describe() for broker in self.brokers)
        running = all(broker.state == "running" for broker in brokers)
        stopped = all(broker.state == "stopped" for broker in brokers)
        return ClusterStatus(
            name=layout.name,
            state="running" if running else "stopped" if stopped else "degraded",
            cluster_id=layout.cluster_id,
            kafka_version=layout.kafka_version,
            secure=layout.secure,
            bootstrap_servers=self.bootstrap_servers,
            admin_bootstrap_servers=self.admin_bootstrap_servers,
            folder=str(self.folder),
            password_file=str(self.credentials.password_file("isthmus")) if layout.secure else None,
            ca_file=str(self.credentials.ca_file) if layout.secure else None,
            brokers=brokers,
        )

    def _bring_up(self, *, fresh: bool, wait: bool) -> None:
        try:
            for broker in self.brokers:
                broker.start(wait=False)
            if wait:
                self.wait_until_ready()
                if self._launcher.detached:
                    self.detach()
        except BaseException as error:
            self.abandon()
            # Files that explain a failure are kept; an interrupted first start leaves nothing behind.
            if fresh and (isinstance(error, PortBusy) or not isinstance(error, HostError)):
                self._wipe()
            raise

    def _wipe(self) -> None:
        """Remove what is ours; also the folder, unless it was given to us or holds something else."""
        (self.folder / _DESCRIPTION).unlink(missing_ok=True)
        for folder in (*(broker.folder for broker in self.brokers), self.credentials.folder):
            shutil.rmtree(folder, ignore_errors=True)
        if self._temporary or self.folder.parent == state_folder():
            with suppress(OSError):
                self.folder.rmdir()


def status(names: Iterable[str] | None = None) -> list[ClusterStatus]:
    """The detached clusters of this user, by name; only those of these names if some are given."""
    if names is None:
        names = sorted(file.parent.name for file in state_folder().glob(f"*/{_DESCRIPTION}"))
    found = (LocalCluster.find(name) for name in names)
    return [cluster.describe() for cluster in found if cluster is not None]


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a local cluster",
            field="name",
            hint="Use lower-case letters, digits, dots and dashes.",
        )
    return name


def _checked_count(brokers: int | None) -> int | None:
    if brokers is not None and not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(
            f"a local cluster cannot have {brokers} brokers",
            field="brokers",
            hint=f"Ask for 1 to {BROKERS_MAX}.",
        )
    return brokers


def _folder(name: str, *, temporary: bool) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"isthmus-{name}-")) if temporary else state_folder() / name


def _kept_layout(folder: Path) -> Layout | None:
    file = folder / _DESCRIPTION
    return layout_from_json(file.read_text(), file) if file.exists() else None


def _settle(
    name: str, brokers: int | None, base_port: int | None, shape: Mapping[str, Any], kept: Layout | None
) -> Layout:
    """Return the layout to run: the requested one, if that agrees with the existing cluster.

    :raises PlanRefused: It does not.
    """
    found = kept or Layout(name=name, cluster_id=new_id(), kafka_version=KAFKA_VERSION, nodes=())
    asked = replace(found, kafka_version=KAFKA_VERSION, **shape)
    count = brokers or len(found.nodes) or _BROKERS
    if kept is None or (base_port is not None and count == len(kept.nodes)):
        asked = replace(asked, nodes=choose_ports(count, base_port, asked.secure, bool(asked.client_ca_file)))
    if kept is not None and (differences := list(_differences(kept, asked, count))):
        raise PlanRefused(
            f"a local cluster {name} is there already: {', '.join(differences)}",
            hint=f"Start it as it is with `isthmus local up --clusters {name}`, or remove it and its data with "
            f"`isthmus local down --clusters {name} --wipe`.",
        )
    return asked


def _differences(kept: Layout, asked: Layout, brokers: int) -> Iterator[str]:
    """Yield the differences between a cluster and the requested layout."""
    there = len(kept.nodes)
    if there != brokers:
        yield f"it has {there} broker{'' if there == 1 else 's'}, not {brokers}"
    if kept.secure != asked.secure:
        yield "it is secured" if kept.secure else "it is not secured"
    elif kept.nodes != asked.nodes:
        yield f"its first broker listens on port {_first_port(kept)}, not on {_first_port(asked)}"
    if kept.client_ca_file != asked.client_ca_file:
        yield f"it trusts clients by {kept.client_ca_file or 'no certificate authority'}, not by {asked.client_ca_file}"
    if (kept.properties, kept.node_properties) != (asked.properties, asked.node_properties):
        yield "its properties are others"


def _first_port(layout: Layout) -> int:
    return layout.nodes[0].sasl_ssl or layout.nodes[0].plaintext
