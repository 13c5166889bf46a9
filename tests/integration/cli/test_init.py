"""`isthmus init` in front of real clusters."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus import config
from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-c", "from isthmus.cli.app import main; main()"]
SOURCE = Path(__file__).parents[3] / "src"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder, to its end."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=TERM_S, check=False
    )


def test_what_is_written_runs_as_it_is(tmp_path: Path, east: LocalCluster, west: LocalCluster) -> None:
    """It says what the clusters have, is planned without another word, and is never written over."""
    topic = f"init-{secrets.token_hex(4)}"
    topics.create(east, topic)
    given = "-b", east.bootstrap_servers, "--target", west.bootstrap_servers, "--include", topic

    shown = run(tmp_path, "init", *given, "--dry-run")
    made = run(tmp_path, "init", *given)
    again = run(tmp_path, "init", *given)

    assert (shown.returncode, made.returncode, again.returncode) == (0, 0, 2)
    file = tmp_path / "isthmus.yaml"
    assert file.read_text() == shown.stdout
    assert "1 broker, " in shown.stdout
    assert "--force" in again.stderr
    (link,) = config.load(file, environment={}).links
    assert link.name == "source-target"
    plan = run(tmp_path, "plan", "-o", "json")
    assert topic in plan.stdout, plan.stderr


def test_one_cluster_twice_is_refused(tmp_path: Path, east: LocalCluster) -> None:
    """A link leads from one cluster to another; nothing is written."""
    made = run(tmp_path, "init", "-b", east.bootstrap_servers, "--target", east.bootstrap_servers)

    assert made.returncode == 2
    assert "one cluster" in made.stderr
    assert not (tmp_path / "isthmus.yaml").exists()


def test_a_cluster_that_is_away_is_told(tmp_path: Path, east: LocalCluster) -> None:
    """The file is written all the same: what it lacks is what nobody could ask."""
    made = run(tmp_path, "init", "-b", east.bootstrap_servers, "--target", "127.0.0.1:1", "--target-alias", "far")

    assert made.returncode == 0, made.stderr
    assert "far at 127.0.0.1:1 does not answer" in made.stderr
    assert config.load(tmp_path / "isthmus.yaml", environment={}).cluster("far")


def test_a_cluster_for_one_command(tmp_path: Path, east: LocalCluster) -> None:
    """Without any file; it is called `cluster` where no alias is given, and a file beside it is refused."""
    described = run(tmp_path, "-b", east.bootstrap_servers, "cluster", "desc", "cluster", "-o", "json")
    named = run(tmp_path, "-b", f"east={east.bootstrap_servers}", "cluster", "topics", "east", "-o", "json")
    examined = run(tmp_path, "-b", east.bootstrap_servers, "doctor", "-o", "json")
    both = run(tmp_path, "-b", east.bootstrap_servers, "cluster", "describe", "cluster", "-c", "isthmus.yaml")

    assert (described.returncode, named.returncode, both.returncode) == (0, 0, 2), described.stderr + named.stderr
    assert json.loads(described.stdout)["mode"] == "kraft"
    assert "-b and by -c" in both.stderr
    found = json.loads(examined.stdout)
    assert {"reachability", "version"} <= {each["check"] for each in found if each["subject"] == "cluster"}
