"""The layout of a local cluster, as a value that is written down beside its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from isthmus.errors import ConfigError

HOST: Final = "127.0.0.1"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The loopback ports of one broker. The secured listeners are 0 where the cluster has none."""

    plaintext: int
    controller: int
    sasl_ssl: int = 0
    ssl: int = 0

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(port for port in (self.plaintext, self.controller, self.sasl_ssl, self.ssl) if port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of a cluster that stay the same while its brokers come and go.

    Node `n` (1-based) is a combined controller and broker and listens on `nodes[n - 1]`.
    `properties` are added to every broker's `server.properties` and win over ours; node `n` has
    `node_properties[n - 1]` besides, where there are any. `fast_start` trades peak speed of the JVM
    for a quick start.
    """

    name: str
    cluster_id: str
    kafka_version: str
    nodes: tuple[Ports, ...]
    secure: bool = False
    client_ca_file: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    node_properties: tuple[Mapping[str, str], ...] = ()
    heap_mb: int = 512
    fast_start: bool = True

    def to_json(self) -> str:
        return json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"


def layout_from_json(text: str, source: Path) -> Layout:
    """Return the layout that `Layout.to_json` wrote to the file `source`.

    :raises ConfigError: The text was written by another version of Isthmus or by another program.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        if document.pop("schema_version") != _SCHEMA_VERSION:
            raise ValueError("another schema version")
        nodes = tuple(Ports(**ports) for ports in document.pop("nodes"))
        node_properties = tuple(document.pop("node_properties", ()))
        return Layout(nodes=nodes, node_properties=node_properties, **document)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{source} does not describe a local cluster: {error}",
            hint=f"Remove the folder {source.parent}, after ending the brokers that run in it.",
        ) from error
