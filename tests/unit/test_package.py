"""What is deployed: the files of deploy/ name what there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from isthmus import config
from isthmus.config.overrides import overridden, variables
from isthmus.config.reading.document import ConfigDocument
from isthmus.metrics import server
from testing.patience import TERM_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TREE = json.loads((ROOT / "src" / "isthmus" / "cli" / "tree.json").read_text())


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
    given = driver_variables()
    assert len(variables(given)) == 2
    document: Any = overridden(ConfigDocument.parse(text, "isthmus.yaml"), given).root
    assert document["spark"]["master"].startswith("k8s://")
    assert document["spark"]["conf"]["spark.executor.instances"] == "2"


def driver_variables() -> dict[str, str]:
    """The variables of the driver's pod; those that Kubernetes fills in are empty."""
    return {each["name"]: each.get("value", "") for each in environment("spark/driver.yaml")}


def spark_conf() -> dict[str, str]:
    """What the driver's pod gives Spark."""
    return dict(yaml.safe_load(driver_variables()["ISTHMUS_SPARK__CONF"]))


def test_what_is_filled_in_stands_before_it_is_used() -> None:
    """Kubernetes replaces `$(NAME)` in a variable by those that the list has above it, and leaves it else."""
    known: set[str] = set()
    for each in environment("spark/driver.yaml"):
        assert set(re.findall(r"\$\((\w+)\)", each.get("value", ""))) <= known
        known.add(each["name"])
    assert spark_conf()["spark.kubernetes.namespace"] == "$(POD_NAMESPACE)"


def test_policies_open_the_ports_that_spark_has() -> None:
    """Executors reach the driver's two ports, all of them each other's blocks, and nobody else reaches either."""
    text = (DEPLOY / "kubernetes" / "spark" / "networkpolicy.yaml").read_text()
    policies = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(text)}
    conf = spark_conf()
    driver, blocks = int(conf["spark.driver.port"]), int(conf["spark.driver.blockManager.port"])
    assert conf["spark.blockManager.port"] == str(blocks)
    # Another port than these would be one that no policy opens.
    assert conf["spark.port.maxRetries"] == "0"
    executors = conf["spark.kubernetes.executor.label.app.kubernetes.io/name"]
    for name, ports, peers in (
        ("isthmus", {driver, blocks}, {executors}),
        (executors, {blocks}, {"isthmus", executors}),
    ):
        (policy,) = (each for each in policies.values() if pods(each) == name)
        (rule,) = policy["ingress"]
        assert {port["port"] for port in rule["ports"]} == ports
        assert {pods(peer) for peer in rule["from"]} == peers


def pods(selecting: dict[str, Any]) -> str:
    """The name of the pods that a policy, or a peer in it, selects."""
    return str(selecting["podSelector"]["matchLabels"]["app.kubernetes.io/name"])


def run_in_container(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """What the image's script starts instead of itself, with its arguments: every program records them and ends."""
    folder.mkdir()
    for name in ("isthmus", "java"):
        program = folder / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    image = (DEPLOY / "container" / "Containerfile").read_text()
    (script,) = re.findall(r"^COPY --chmod=755 (\S+) /usr/local/bin/isthmus-entrypoint$", image, re.M)
    assert '"isthmus-entrypoint"]' in image
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    started = subprocess.run(
        [ROOT / script, *arguments], env={"PATH": path, **variables}, check=True, capture_output=True, text=True
    )
    return started.stdout.splitlines()


def test_the_image_is_the_command(tmp_path: Path) -> None:
    """Whatever it is given goes to `isthmus` as it is."""
    assert run_in_container(tmp_path / "bin", "run", "--standby", "a b") == ["isthmus", "run", "--standby", "a b"]
    assert run_in_container(tmp_path / "more") == ["isthmus"]


def test_the_image_is_an_executor_of_spark(tmp_path: Path) -> None:
    """Where Spark starts it with `executor` it is one, with all that Spark's variables say (a standalone Spark's test
    of the same script shows that such an executor takes tasks).
    """
    said = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "spark-application-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_EXECUTOR_POD_NAME": "isthmus-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "--add-opens=x",
    }

    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    assert run_in_container(tmp_path / "bin", "executor", **said) == [
        *("java", "-Da=b c", "--add-opens=x", "-Xms512m", "-Xmx512m", "-cp", f"/opt/spark/conf:{jars}"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", said["SPARK_DRIVER_URL"], "--executor-id", "3", "--cores", "1"),
        *("--app-id", said["SPARK_APPLICATION_ID"], "--hostname", "10.0.0.8"),
        *("--resourceProfileId", "0", "--podName", "isthmus-exec-3"),
    ]
    more = run_in_container(tmp_path / "more", "executor", **said, SPARK_HOME="/spark", SPARK_CLASSPATH="/mine")
    assert more[more.index("-cp") + 1] == "/opt/spark/conf:/mine:/spark/jars/*"


def test_the_image_makes_its_class_archive_while_it_may() -> None:
    """It is written beside the environment, which belongs to root."""
    image = (DEPLOY / "container" / "Containerfile").read_text()
    assert image.index("isthmus.spark.training") < image.index("USER 10001")


def test_a_unit_that_is_ended_has_not_failed() -> None:
    """After SIGTERM the command exits with 128 + 15, as a shell would say it."""
    for unit in (DEPLOY / "systemd").iterdir():
        assert f"SuccessExitStatus={128 + signal.SIGTERM}\n" in unit.read_text(), unit.name


def lint(*command: str | Path) -> None:
    """Have a linter of this environment look, which has to find nothing."""
    name, *arguments = command
    found = subprocess.run(
        [Path(sys.executable).parent / name, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=TERM_S
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_image_is_built_as_is_good_practice() -> None:
    """Hadolint finds nothing; what it is told to pass over stands in the file, with its rule."""
    lint("hadolint", "deploy/container/Containerfile")


def test_yaml_files_are_written_alike() -> None:
    """Yamllint's own rules, but for longer lines and without a mark at the beginning."""
    lint(
        "yamllint",
        "-s",
        "-d",
        "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}",
        "deploy",
    )


def test_kubernetes_would_take_the_objects(tmp_path: Path) -> None:
    """As its schemas have them, with no field that it does not know; a patch as it makes the object that it is for."""
    base = yaml.safe_load((DEPLOY / "kubernetes" / "base" / "deployment.yaml").read_text())
    patch = yaml.safe_load((DEPLOY / "kubernetes" / "spark" / "driver.yaml").read_text())
    (tmp_path / "driver.yaml").write_text(yaml.safe_dump(patched(base, patch)))
    listed = [
        path.parent / name
        for path in (DEPLOY / "kubernetes").rglob("kustomization.yaml")
        for name in yaml.safe_load(path.read_text())["resources"]
        if name.endswith(".yaml")
    ]
    assert len(listed) >= 3
    lint("kubernetes-validate", "--strict", tmp_path / "driver.yaml", *listed)


def patched(base: Any, patch: Any) -> Any:
    """An object with a strategic merge patch: items of lists with a name are merged by it."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {key: patched(base[key], value) if key in base else value for key, value in patch.items()}
    if isinstance(base, list) and isinstance(patch, list) and all("name" in each for each in (*base, *patch)):
        named = {each["name"]: each for each in base}
        merged = {each["name"]: patched(named.get(each["name"], {}), each) for each in patch}
        return list((named | merged).values())
    return patch


def test_systemd_understands_its_units(tmp_path: Path) -> None:
    """Every setting is known and has a value that it may have."""
    if (systemd := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd on this machine")
    for unit in (DEPLOY / "systemd").iterdir():
        # It looks whether the program is there.
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/isthmus/bin/isthmus", sys.executable))
    units = sorted(str(each) for each in tmp_path.iterdir())
    found = subprocess.run([systemd, "verify", "--man=no", *units], capture_output=True, text=True, timeout=TERM_S)
    assert (found.returncode, found.stderr) == (0, "")


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
