"""The text of a broker's `server.properties`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isthmus.local.layout import HOST, Layout, Ports

_SMALL: Final = {
    # Nothing is created by accident: a mirror's topics are created on purpose, with the source's
    # settings.
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # The default sets 128 MB of heap aside for compaction, most of a small broker's heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
    # A restarted broker waits for the session of its former self: 9 s by default. Shorter than
    # this, a busy machine fences brokers that are alive.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # The default of a second is for networks; between processes of one machine it only delays the
    # start.
    "controller.quorum.election.timeout.ms": "500",
    # An idle controller writes a record that says nothing every 500 ms by default, which costs every
    # node 1 % of a core.
    "metadata.max.idle.interval.ms": "5000",
}


def server_properties(layout: Layout, node_id: int, folder: Path, security: Mapping[str, str] | None = None) -> str:
    """`server.properties` of node `node_id`, its data below `folder`.

    `security` holds what the secured listeners need (see `security.broker_properties`).
    """
    ports = layout.nodes[node_id - 1]
    voters = (f"{node}@{HOST}:{each.controller}" for node, each in enumerate(layout.nodes, start=1))
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in _listeners(ports).items())
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(voters),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in _listeners(ports)
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        **_replication(len(layout.nodes)),
        **_SMALL,
        **(security or {}),
        **layout.properties,
        **(layout.node_properties[node_id - 1] if layout.node_properties else {}),
    }
    return as_text(properties)


def as_text(properties: Mapping[str, str]) -> str:
    """Properties as `java.util.Properties` reads them: one a line, backslashes doubled."""
    return "".join(f"{key}={str(value).replace(chr(92), chr(92) * 2)}\n" for key, value in properties.items())


def _listeners(ports: Ports) -> dict[str, int]:
    listeners = {
        "PLAINTEXT": ports.plaintext,
        "SASL_SSL": ports.sasl_ssl,
        "SSL": ports.ssl,
        "CONTROLLER": ports.controller,
    }
    return {name: port for name, port in listeners.items() if port}


def _replication(brokers: int) -> dict[str, str]:
    """Internal topics on up to three brokers, writable while one of three is down."""
    factor, in_sync = min(brokers, 3), min(max(brokers - 1, 1), 2)
    return {
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(factor),
        "offsets.topic.num.partitions": str(brokers),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": str(brokers),
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
    }
