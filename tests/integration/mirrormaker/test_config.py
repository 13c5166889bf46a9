"""What MirrorMakerConfigTest asks of the names of settings, by Kafka's own classes (docs/mm2-conformance.md)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from isthmus.interop.deployment import Impact
from isthmus.local.jvm import jvm_for
from testing.patience import TERM_S
from testing.values.samples import imported, keys

pytestmark = pytest.mark.integration

PROGRAM: Final = Path(__file__).with_name("ConfigNames.java")
CLASSES: Final = {"MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"}


def defined() -> dict[str, dict[str, str]]:
    """The settings that each connector of Kafka 4.3.1 defines, with their defaults."""
    jvm = jvm_for("mm2-4.3.1")
    # The file is compiled by the launcher, for which the class path has to be an option.
    command = jvm.command(str(PROGRAM), heap_mb=256, options=["-cp", jvm.class_path])
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TERM_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        connector, _, setting = line.partition(" ")
        name, _, default = setting.partition("=")
        found.setdefault(connector, {})[name] = default
    return found


def as_written(settings: dict[str, str]) -> dict[str, str]:
    """The settings of a connector, those of its clients once for either cluster."""
    of_clients = {name for name in settings if name.startswith(("security.", "ssl.", "sasl."))}
    return {name: value for name, value in settings.items() if name not in of_clients} | {
        f"{side}.cluster.{name}": settings[name] for side in ("source", "target") for name in of_clients
    }


def test_all_config_names() -> None:
    """Of connectors with every setting that their classes define, no name is unknown. Settings of clients are written
    for the clusters, where MirrorMaker 2 heeds them.
    """
    found = defined()
    assert found.keys() == CLASSES
    assert {"offset.lag.max", "topics.exclude", "tasks.max"} <= found["MirrorSourceConnector"].keys()
    needed = {
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
    }
    connectors = [
        {**as_written(settings), **needed, "connector.class": name, "name": name} for name, settings in found.items()
    ]
    draft = imported(json.dumps(connectors), name="connectors.json")
    assert keys(draft, Impact.UNKNOWN) == []
    misspelt = imported(json.dumps([*connectors[1:], {**connectors[0], "offset.lag.mx": "1"}]), name="connectors.json")
    assert keys(misspelt, Impact.UNKNOWN) == ["MirrorSourceConnector: offset.lag.mx"]
