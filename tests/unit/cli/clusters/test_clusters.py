"""`isthmus cluster list`: what is known of clusters without asking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus.cli.clusters.cluster import app
from isthmus.cli.completion import completions
from isthmus.cli.remembered import Remembered, cache_file, remember

# Nobody listens at port 1: a list that asked a cluster would fail.
FILE = """\
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: ["127.0.0.1:1", "127.0.0.2:1"]}
  spare: {bootstrap_servers: "127.0.0.3:1"}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["flights"]}}
  - {name: west-east, source: west, target: east, topics: {include: ["payments"]}}
trees:
  - {name: world, clusters: [west, spare], topics: ["news"]}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three clusters, two links, and a tree."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("ISTHMUS_CONFIG", "ISTHMUS_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "isthmus.yaml"
    path.write_text(FILE)
    return path


def listed(*words: str) -> str:
    """What `isthmus cluster` prints of them."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows() -> dict[str, Any]:
    """The clusters by alias."""
    return {row["cluster"]: row for row in json.loads(listed("list", "-o", "json"))}


def test_clusters_are_listed_with_what_uses_them(file: Path) -> None:
    """Addresses, links and trees are those of the file, and no cluster is asked."""
    found = rows()
    assert {name: (row["links"], row["trees"]) for name, row in found.items()} == {
        "east": (["east-west", "west-east"], []),
        "west": (["east-west", "west-east"], ["world"]),
        "spare": ([], ["world"]),
    }
    assert found["west"]["bootstrap_servers"] == ["127.0.0.1:1", "127.0.0.2:1"]
    assert {(row["cluster_id"], row["brokers"], row["problem"]) for row in found.values()} == {(None, None, None)}


@pytest.mark.parametrize("word", ["list", "ls", "get"])
def test_short_names_and_names_for_scripts(file: Path, word: str) -> None:
    """As in all groups of commands."""
    assert listed(word, "-o", "name") == "east\nwest\nspare\n"
    assert "127.0.0.1:1, 127.0.0.2:1" in listed(word)


def test_an_id_is_known_once_the_cluster_was_asked(file: Path) -> None:
    """It is kept with the names for completion, under the addresses: others may lead to another cluster."""
    remember(cache_file(file), {"at": 1.0, "declared": ["grown"]})
    Remembered(file).keep_cluster_ids({"127.0.0.1:1": "id-of-east"})

    assert {name: row["cluster_id"] for name, row in rows().items()} == {
        "east": "id-of-east",
        "west": None,
        "spare": None,
    }
    assert Remembered(file).links() == ["east-west", "grown", "west-east"]
    file.write_text(
        FILE.replace('east: {bootstrap_servers: "127.0.0.1:1"}', 'east: {bootstrap_servers: "127.0.0.9:1"}')
    )
    assert rows()["east"]["cluster_id"] is None


def test_it_is_completed(file: Path) -> None:
    """With its option."""
    assert completions(["cluster"], "li") == ["list"]
    assert completions(["cluster", "ls"], "--as") == ["--ask"]
