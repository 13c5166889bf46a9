"""`isthmus namespace`, `isthmus link` and `isthmus provenance`, as people and scripts call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.local import LocalCluster
from testing.groups.carrying import records
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.killing import configured

pytestmark = pytest.mark.integration


class Shell:
    """Gives commands with a file of two clusters."""

    def __init__(self, file: str) -> None:
        self.file = file

    def table(self, *words: str, output: str = "table") -> str:
        """What a command shows."""
        done = CliRunner().invoke(app, [*words, "-c", self.file, "-o", output])
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def read(self, *words: str) -> Any:
        """What a command tells scripts."""
        return json.loads(self.table(*words, output="json"))


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster) -> Shell:
    return Shell(configured(tmp_path, east, west))


def test_namespaces_are_declared_and_shown(shell: Shell, name: str) -> None:
    """As JSON and as a table, until they are declared no more."""
    prefix = f"{name}.own-"
    created = shell.read("namespace", "create", "west", prefix, "--reserved")
    assert (created["namespace"], created["kind"], created["reserved"]) == (f"{prefix}*", "topic", True)
    described = shell.read("namespace", "describe", "west", prefix)
    assert described["in_force"]["closed"] is False
    listed = {each["namespace"]: each for each in shell.read("namespace", "list", "west")}
    assert {**listed[f"{prefix}*"], "in_force": None} == {**described, "in_force": None}
    for shown in (shell.table("namespace", "list", "west"), shell.table("namespace", "describe", "west", prefix)):
        (row,) = (line.split() for line in shown.splitlines() if f"{prefix}*" in line)
        assert row[:6] == ["topic", f"{prefix}*", described["state"], "(agreed", "only)", "0"]
    shell.table("namespace", "delete", "west", prefix, "--yes")
    assert f"{prefix}*" not in shell.table("namespace", "list", "west", output="name").splitlines()


def test_links_are_declared_and_shown_and_tell_what_they_leave(
    shell: Shell, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """As JSON and as tables, from the first word about a link to where the records of its topics came from."""
    for cluster, topic in ((east, f"{name}.a-1"), (west, f"{name}.x-1")):
        topics.create(cluster, topic)
        topics.produce(cluster, topic, records(3))
    between = ("--source", "east", "--target", "west", "--map", f"{name}.a-:{name}.x-")
    bare = CliRunner().invoke(app, ["link", "create", name, *between[:4], "--dry-run", "-c", shell.file])
    assert f"nothing is copied: isthmus link attach {name} --map local-:remote-" in " ".join(bare.stderr.split())
    created = shell.read("link", "create", name, *between)
    topic_map = {"kind": "topic", "source": f"{name}.a-*", "target": f"{name}.x-*", "exact": False}
    assert (created["link"], created["attached"]) == (name, [topic_map])
    attached = shell.read("link", "attach", name, "--group-map", f"{name}.")
    assert [each["kind"] for each in attached["attached"]] == ["group", "topic"]
    described = shell.read("link", "describe", name)
    assert described["attached"] == attached["attached"]
    listed = {each["link"]: each for each in shell.read("link", "list")}
    assert {**listed[name], "parted": []} == described
    for shown in (shell.table("link", "list"), shell.table("link", "describe", name)):
        row = next(line for line in shown.splitlines() if line.split()[:1] == [name])
        assert row.split()[:4] == [name, "east", "west", "async"]
        assert f"{name}.a-*:{name}.x-*" in row

    assert shell.read("link", "promote", name, "--quiet", "100ms", "--yes")["done"]
    (origin,) = shell.read("provenance", f"{name}.x-1")
    expected = {"cluster": "west", "partition": 0, "offset_begin": 0, "offset_end": 3, "verb": "promote"}
    assert {**origin, **expected, "source_topic": f"{name}.a-1", "link": name} == origin
    (row,) = (line for line in shell.table("provenance", f"{name}.x-1").splitlines() if name in line)
    assert row.split()[:5] == ["west", "0", "0", "3", "same"]
    assert {f"{name}.a-1", name, "promote"} < set(row.split())
