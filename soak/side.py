"""One of the clusters: its brokers, and a network of its own between each and the mirror."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from isthmus.local import LocalBroker, LocalCluster
from isthmus.local.ports import choose_ports, free_ports, is_free
from soak.naming import AS_AT_SOURCE, Names
from soak.network import Network
from testing.brokers.proxy import HOST

BROKERS: Final = 3
_HEAP_MB: Final = 256
_READY_S: Final = 600.0
_LOOK_S: Final = 10.0
_POLL_S: Final = 0.3
_PROXIED, _ADVERTISED = 30, 40
"""How far above the first port the listeners for the mirror lie, and the networks in front of them."""
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PROPERTIES: Final = {
    # Leaders move when a fault moves them.
    "auto.leader.rebalance.enable": "false",
    # What usually takes minutes shall happen within a run.
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    # On a machine that does much else, nobody is to be thought dead who is only slow.
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


class Side:
    """A cluster whose brokers the mirror reaches through `networks`, one for each; everybody else goes straight.

    `admin` may do everything. `names` is how topics are called here.
    """

    def __init__(self, name: str, cluster: LocalCluster, networks: list[Network], names: Names = AS_AT_SOURCE) -> None:
        self.name = name
        self.names = names
        self.cluster = cluster
        self.networks = networks
        self.servers = cluster.admin_bootstrap_servers
        # One for all: what a client was asked for it does not do when it is dropped meanwhile.
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.secrets = [self.password_file.read_text()]

    @property
    def mirror_servers(self) -> str:
        """The addresses the mirror is given."""
        return ",".join(f"{HOST}:{network.port}" for network in self.networks)

    @property
    def password_file(self) -> Path:
        return self.cluster.credentials.password_file("isthmus")

    def login(self) -> dict[str, Any]:
        """The section of a configuration that names this cluster."""
        return {
            "bootstrap_servers": self.mirror_servers,
            "security": {
                "protocol": "SASL_PLAINTEXT",
                "mechanism": "SCRAM-SHA-512",
                "username": "isthmus",
                "password": f"${{file:{self.password_file}}}",
            },
        }

    def broker(self, node_id: int) -> LocalBroker:
        return self.cluster.broker(node_id)

    @contextmanager
    def elsewhere(self, node_id: int) -> Iterator[int]:
        """Have a broker tell the mirror another port, from its next start on; nobody listens on the one before."""
        file, network = _address_file(self.cluster.folder, node_id), self.networks[node_id - 1]
        before, (port,) = network.port, free_ports(1)
        file.write_text(f"port={port}\n")
        network.move(port)
        try:
            yield port
        finally:
            file.write_text(f"port={before}\n")
            network.move(before)

    def restore(self) -> None:
        """Every broker runs, and every replica is in sync.

        :raises HostError: A broker does not start.
        :raises TimeoutError: Replicas stay behind.
        """
        for broker in self.cluster.brokers:
            broker.resume()
            broker.start(wait=False)
        self.cluster.wait_until_ready(term_s=_READY_S)
        self.await_in_sync(_READY_S)

    def await_in_sync(self, term_s: float) -> None:
        """Wait until every partition has a leader and all its replicas.

        :raises TimeoutError: Some have not.
        """
        deadline = time.monotonic() + term_s
        while behind := _behind(self.admin):
            if time.monotonic() > deadline:
                raise TimeoutError(f"out of sync at the {self.name}: {', '.join(sorted(behind)[:5])}")
            time.sleep(_POLL_S)


def _behind(client: AdminClient) -> set[str]:
    """Partitions without a leader or without some of their replicas, or what keeps us from knowing."""
    try:
        topics = client.list_topics(timeout=_LOOK_S).topics
    except KafkaException as error:
        return {str(error)}
    return {
        f"{name}-{number}"
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader < 1 or len(partition.isrs) < len(partition.replicas)
    }


@contextmanager
def sides(
    folder: Path, properties: Mapping[str, Mapping[str, str]], *, seed: int, target_names: Names = AS_AT_SOURCE
) -> Iterator[tuple[Side, Side]]:
    """The source and the target, both ready. `properties` are for the brokers, by the name of the side."""
    # Both start at once; a machine with two processors has enough to do with that.
    with _all_begun(("source", "target"), folder, properties, seed=seed, brokers=BROKERS) as (source, target):
        target.names = target_names
        yield source, target


@contextmanager
def leaves(folder: Path, names: Sequence[str], properties: Mapping[str, str], *, seed: int) -> Iterator[list[Side]]:
    """Clusters of one broker each, all ready."""
    with _all_begun(names, folder, dict.fromkeys(names, properties), seed=seed, brokers=1) as begun:
        yield begun


@contextmanager
def _all_begun(
    names: Sequence[str], folder: Path, properties: Mapping[str, Mapping[str, str]], *, seed: int, brokers: int
) -> Iterator[list[Side]]:
    with ExitStack() as stack:
        begun = [stack.enter_context(_begun(name, folder, properties[name], seed, brokers)) for name in names]
        for side in begun:
            side.cluster.wait_until_ready(term_s=_READY_S)
        yield begun


@contextmanager
def _begun(name: str, folder: Path, properties: Mapping[str, str], seed: int, brokers: int) -> Iterator[Side]:
    base_port = _base_port()
    ports = choose_ports(brokers, base_port, secure=True, mutual_tls=False)
    data = folder / name
    data.mkdir(parents=True)
    nodes = []
    for number, each in enumerate(ports):
        listeners = {
            "PLAINTEXT": each.plaintext,
            "SASL_SSL": each.sasl_ssl,
            "PROXIED": base_port + _PROXIED + number,
            "CONTROLLER": each.controller,
        }
        nodes.append(_addresses(_address_file(data, number + 1), listeners, base_port + _ADVERTISED + number))
    everywhere = {
        **_PROPERTIES,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,PROXIED:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "listener.name.proxied.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.proxied.scram-sha-512.sasl.jaas.config": _SCRAM,
        **properties,
    }
    with ExitStack() as stack:
        cluster = LocalCluster.start(
            name,
            brokers=brokers,
            base_port=base_port,
            secure=True,
            properties=everywhere,
            node_properties=nodes,
            data_dir=data,
            heap_mb=_HEAP_MB,
            wait=False,
        )
        # Nobody needs its brokers any more then: what they hold was read.
        stack.callback(cluster.abandon)
        networks = [
            stack.enter_context(
                Network(base_port + _ADVERTISED + number, base_port + _PROXIED + number, seed=seed * 10 + number)
            )
            for number in range(brokers)
        ]
        yield Side(name, cluster, networks)


def _address_file(folder: Path, node_id: int) -> Path:
    return folder / f"advertised-{node_id}"


def _addresses(file: Path, listeners: Mapping[str, int], advertised: int) -> dict[str, str]:
    """The addresses of one broker. What it advertises to the mirror is in a file, which it reads when it starts."""
    file.write_text(f"port={advertised}\n")
    told = {**{name: str(port) for name, port in listeners.items()}, "PROXIED": f"${{file:{file}:port}}"}
    return {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in told.items()),
    }


def _base_port() -> int:
    while True:
        (port,) = free_ports(1)
        every = [p for ports in choose_ports(BROKERS, port, secure=True, mutual_tls=False) for p in ports.all]
        every += [port + apart + number for apart in (_PROXIED, _ADVERTISED) for number in range(BROKERS)]
        if all(map(is_free, every)) and max(every) < 32_768:
            return port
