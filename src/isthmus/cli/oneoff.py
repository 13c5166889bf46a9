"""Clusters that are named on the command line, for one command: `isthmus -b host:9092 cluster describe cluster`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isthmus.errors import ConfigError

if TYPE_CHECKING:
    from isthmus.model.configuration import Configuration

ALIAS = "cluster"


@dataclass(slots=True)
class _Named:
    servers: tuple[str, ...] = ()
    properties: Path | None = None


_named = _Named()


def name(servers: Collection[str], properties: Path | None) -> None:
    """Make the command use these clusters.

    :raises ConfigError: There are properties of a client, and no cluster.
    """
    if properties is not None and not servers:
        raise ConfigError("--command-config is for a cluster named by -b", hint="Name one: -b host:9092.")
    _named.servers, _named.properties = tuple(servers), properties


def is_named() -> bool:
    """Return whether there are any."""
    return bool(_named.servers)


def build_configuration(path: Path | None) -> Configuration | None:
    """Return the configuration of the clusters that were named, `None` if none was.

    :raises ConfigError: A configuration file was named too, an alias twice, or an address cannot be one.
    """
    if not _named.servers:
        return None
    if path is not None:
        raise ConfigError("clusters are named by -b and by -c", hint="Leave one of them out.")
    from isthmus import config
    from isthmus.interop.files import ThisMachine, read_input, write_all
    from isthmus.interop.starting import Start, clusters_only

    file = _named.properties
    data = None if file is None else read_input(file)
    starts: dict[str, Start] = {}
    for text in _named.servers:
        alias, is_given, servers = text.rpartition("=")
        alias = alias if is_given else ALIAS
        if alias in starts:
            raise ConfigError(f"two clusters are called {alias}", hint="Give each its own: -b east=host:9092.")
        starts[alias] = Start.of(alias, servers, data, str(file))
    machine = ThisMachine(Path.cwd(), os.environ)
    draft = clusters_only(list(starts.values()), machine, folder="secrets")
    with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:
        written = Path(folder) / "isthmus.yaml"
        write_all(draft.text, draft.companions, written, force=False)
        return config.load(written, environment={})
