"""`isthmus cluster list --ask`: real clusters, and one that is away."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isthmus
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.namespace import NamespaceMap
from testing.runs.command import run

pytestmark = pytest.mark.integration


def test_clusters_are_asked_and_remembered(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Their ids and brokers, and links declared on them; the one that is away says why, and ends the command with 1.
    The ids are known from then on.
    """
    name, (closed,) = topic("listed"), free_ports(1)
    file = tmp_path / "isthmus.yaml"
    addresses = {"east": east.bootstrap_servers, "west": west.bootstrap_servers, "away": f"127.0.0.1:{closed}"}
    file.write_text(json.dumps({"clusters": {alias: {"bootstrap_servers": at} for alias, at in addresses.items()}}))
    links = isthmus.open(file).declarations

    def listed(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = run("cluster", "list", "-o", "json", "-c", file, *words, env=environment)
        return done.returncode, {row["cluster"]: row for row in json.loads(done.stdout)}

    links.create(name, source="east", target="west", maps=(NamespaceMap.parse(f"{name}-:{name}-"),), validate=False)
    try:
        code, asked = listed("--ask")
    finally:
        links.delete(name)
    assert code == 1
    assert {alias: row["cluster_id"] for alias, row in asked.items()} == {
        "east": east.cluster_id,
        "west": west.cluster_id,
        "away": None,
    }
    assert asked["east"]["brokers"] == len(east.brokers)
    assert {alias for alias, row in asked.items() if row["problem"]} == {"away"}
    assert {alias for alias, row in asked.items() if name in row["links"]} == {"east", "west"}

    code, known = listed()
    assert code == 0
    assert [known[alias]["cluster_id"] for alias in addresses] == [east.cluster_id, west.cluster_id, None]
