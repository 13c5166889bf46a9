"""`isthmus groups` as people and scripts call it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.groups.carrying import between, declared, filled
from testing.patience import TERM_S
from testing.runs import command
from testing.runs.command import ROOT

pytestmark = pytest.mark.integration


def written(east: LocalCluster, west: LocalCluster, name: str, groups: str) -> str:
    """A configuration with one link, of one topic, that carries these groups."""
    link = {"name": name, "source": "east", "target": "west", "topics": {"include": [name]}}
    clusters = {"east": east, "west": west}
    document = {
        "clusters": {alias: {"bootstrap_servers": each.bootstrap_servers} for alias, each in clusters.items()},
        "links": [{**link, "groups": {"include": [groups]}}],
    }
    return yaml.safe_dump(document)


def test_groups_are_shown_carried_and_drilled(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Each command tells as JSON what it found, and as a table; exit codes say how it went. A group's name may be
    nearly anything: it is carried by it, comes back as it is in JSON, and is shown on one line that moves no cursor.
    """
    name, group = topic("shown"), topic("shown")
    hostile = f"{group}/[bold]имя[/bold]\n\x1b[2J\u202e\t'\"\\ $(id) {'x' * 30_000}"
    selected = f"{group}*"
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 6}, hostile: {(name, 0): 4}})
    asyncio.run(declared(between(east, west, [name], [selected])))
    path = tmp_path / "isthmus.yaml"
    path.write_text(written(east, west, name, selected))
    environment = {**os.environ, "ISTHMUS_CONFIG": str(path), "PYTHONPATH": str(ROOT / "src")}

    def run(*arguments: str, code: int = 0, output: str = "json") -> Any:
        done = command.run("groups", *arguments, "-o", output, env=environment)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if output == "json" and code < 2 else done.stdout + done.stderr

    # The first question has a new cluster elect its coordinators, which takes as long as it takes.
    deadline = time.monotonic() + TERM_S
    while command.run("groups", "sync", "--dry-run", env=environment).returncode:
        assert time.monotonic() < deadline
    (planned,) = run("sync", "--dry-run")
    assert {each["group"]: each["standing"] for each in planned["groups"]} == {group: "DUE", hostile: "DUE"}
    (done,) = run("sync")
    assert [each["standing"] for each in done["groups"]] == ["IN_STEP", "IN_STEP"]
    consumers.await_position(west, hostile, (name, 0), 4)
    table = run("list", output="table")
    assert group in table
    assert "IN_STEP" in table
    shown = hostile.replace("\n", " ").replace("\t", " ").replace("\x1b", "").replace("\u202e", "")
    assert sum(shown in line for line in table.splitlines()) == 1
    assert not {"\x1b", "\u202e", "\t"} & set(table)
    (described,) = run("describe", group)
    assert described["groups"][0]["positions"][0]["target_position"] == 6
    assert run("translate", group)[0]["translated"] == 6
    assert "would skip 0 records and read 0 again" in run("drill", group, output="table")
    assert run("describe", hostile)[0]["groups"][0]["positions"][0]["target_position"] == 4
    assert f"a failover of {shown} would skip 0 records" in run("drill", hostile, output="table")
    tried = run("drill", group, hostile)
    assert [(each["group"], each["skipped"], each["problem"]) for each in tried] == [
        (group, 0, None),
        (hostile, 0, None),
    ]
    assert "absent: ISTH-PLAN-REFUSED" in run("drill", group, "absent", output="table", code=6)
    assert "no link carries a group" in run("describe", "absent", code=6)
    # While the source is away the target's positions are what it is asked for.
    path.write_text(path.read_text().replace(east.bootstrap_servers, "127.0.0.1:1"))
    for away in (run("list", code=1), run("describe", group, code=1)):
        (plan,) = away
        assert "does not answer" in plan["problem"]["message"]
        (each,) = (each for each in plan["groups"] if each["group"] == group)
        assert each["standing"] == "UNAVAILABLE"
        (position,) = each["positions"]
        assert (position["source_position"], position["target_position"]) == (6, 6)
        assert position["source_position_age_seconds"] > 0
