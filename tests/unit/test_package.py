"""What is installed and deployed: the wheel is whole, and the files of deploy/ name what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from isthmus import config
from isthmus.config.document import ConfigDocument
from isthmus.config.overrides import overridden, variables
from isthmus.metrics import server

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TREE = json.loads((ROOT / "src" / "isthmus" / "cli" / "tree.json").read_text())


def test_the_wheel_holds_all_there_is(tmp_path: Path) -> None:
    """Every file beside the modules travels with them, and nothing else."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)

    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert held == {name.removeprefix("src/") for name in tracked.stdout.splitlines()}


def commands() -> Iterator[tuple[str, list[str]]]:
    """The commands that files of deploy/ start: where they stand, and their arguments."""
    for path in DEPLOY.rglob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict) and document.get("kind") == "Deployment":
                for container in document["spec"]["template"]["spec"]["containers"]:
                    if "args" in container:
                        yield path.name, list(container["args"])
    for unit in (DEPLOY / "systemd").iterdir():
        for line in re.findall(r"^ExecStart=\S+isthmus (.*)$", unit.read_text(), re.M):
            yield unit.name, line.split()
    image = (DEPLOY / "container" / "Containerfile").read_text()
    yield "Containerfile", json.loads(re.findall(r"^CMD (.*)$", image, re.M)[0])


@pytest.mark.parametrize(("where", "arguments"), list(commands()))
def test_what_is_started_is_a_command(where: str, arguments: list[str]) -> None:
    """With options that it has."""
    command = TREE["commands"][arguments[0]]
    if command["commands"]:
        command = command["commands"][arguments[1]]

    assert {argument for argument in arguments if argument.startswith("-")} <= command["options"].keys(), where


def test_what_is_configured_can_be_used(tmp_path: Path) -> None:
    """The file of the pods is one, with secrets where they are mounted; what the driver is given replaces keys."""
    for name in ("east.password", "west.password", "east.ca.pem", "west.ca.pem"):
        (tmp_path / name).write_text("x")
    text = (DEPLOY / "kubernetes" / "base" / "isthmus.yaml").read_text().replace("/secrets", str(tmp_path))

    found = config.parse(text, environment={})

    assert found.warnings == ()
    given = {each["name"]: each.get("value", "") for each in environment("spark/driver.yaml")}
    assert len(variables(given)) == 2
    document: Any = overridden(ConfigDocument.parse(text, "isthmus.yaml"), given).root
    assert document["spark"]["master"].startswith("k8s://")
    assert document["spark"]["conf"]["spark.executor.instances"] == "2"


def environment(name: str) -> list[dict[str, str]]:
    """The variables of the one container that a file has."""
    document = yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())
    (container,) = document["spec"]["template"]["spec"]["containers"]
    return list(container["env"])


def test_probes_ask_what_is_answered() -> None:
    """At the port that the configuration has."""
    document = yaml.safe_load((DEPLOY / "kubernetes" / "base" / "deployment.yaml").read_text())
    (container,) = document["spec"]["template"]["spec"]["containers"]
    written = Path(server.__file__).read_text()

    for probe in ("livenessProbe", "readinessProbe"):
        assert f'"{container[probe]["httpGet"]["path"]}"' in written
    listen = yaml.safe_load((DEPLOY / "kubernetes" / "base" / "isthmus.yaml").read_text())["metrics"]["listen"]
    assert listen.endswith(f":{container['ports'][0]['containerPort']}")
