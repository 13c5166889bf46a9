"""What the README and the examples show, run as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture
def flights(east: LocalCluster, topic: Callable[[str], str]) -> str:
    """A source topic with a hundred records."""
    name = topic("flights")
    topics.create(east, name)
    topics.produce(east, name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 100)
    return name


@pytest.fixture
def folder(tmp_path: Path, east: LocalCluster, west: LocalCluster, flights: str) -> Path:
    """A folder with the README's smallest configuration, for two clusters and a topic that are there."""
    (yaml,) = _blocks("yaml")
    addresses = {"127.0.0.1:9192": east.bootstrap_servers, "127.0.0.1:9292": west.bootstrap_servers}
    for old, new in {**addresses, '"flights"': f'"{flights}"', "name: east-west": f"name: {flights}"}.items():
        assert old in yaml
        yaml = yaml.replace(old, new)
    (tmp_path / "isthmus.yaml").write_text(yaml)
    return tmp_path


def test_python_of_the_readme(folder: Path) -> None:
    """The Python in the README plans, copies, verifies and describes a cluster."""
    (code,) = _blocks("python")
    _plan, outcome, verdicts, findings = _run(folder, sys.executable, "-c", code).splitlines()
    assert outcome == "100 True"
    assert "True" in verdicts
    assert "False" not in verdicts
    assert findings.startswith("(")


def test_spark_submit(folder: Path, east: LocalCluster, west: LocalCluster, flights: str) -> None:
    """The example mirrors inside a Spark application that somebody else starts and configures."""
    submit = Path(sys.executable).with_name("spark-submit")
    _run(folder, str(submit), "--master", "local[2]", str(ROOT / "examples" / "spark_submit.py"), "isthmus.yaml")
    assert oracle.assert_same(east, west, flights) == 100


def test_notebook(tmp_path: Path) -> None:
    """The example starts clusters, mirrors in the background, queries its status, stops and compares, as in a kernel,
    where an event loop runs already. What its cells show is HTML.
    """
    shown = _run(tmp_path, sys.executable, "-m", "testing.runs.notebook", str(ROOT / "examples" / "notebook.ipynb"))
    outputs = re.findall(r"^Out: (.*)$", shown, re.MULTILINE)
    plan, outcome, begun, caught_up, in_trouble, stopped, verified = outputs
    assert "create 1" in plan
    assert "1,000 records" in outcome
    assert "caught up" in outcome
    assert "run of east-west is active" in begun
    assert "run of east-west is active" in caught_up
    assert shown.count("|orders|") == 3
    assert in_trouble == "0"
    assert "500 records" in stopped
    assert "east and west hold the same: 1,500 records compared" in verified


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def _run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TERM_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
