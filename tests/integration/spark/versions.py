"""Every Spark that people have, each in an environment of its own, on a cluster of its own: `make spark-versions`.

Not part of the suite: an environment takes minutes to install, once, and a version most of a minute each time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

import pytest

from isthmus.local import LocalCluster
from isthmus.local.java import find_java
from testing.records import oracle, topics, transactions
from testing.records.forgery import forge
from testing.records.pair import without
from testing.records.topics import Given
from testing.runs.command import ROOT, Shell
from testing.runs.standalone import standalone_spark

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

VERSIONS: Final = os.environ.get("SPARKS", "3.5 4.0 4.1 4.2 4.3").split()
FOLDER: Final = Path(os.environ.get("SPARKS_FOLDER", ROOT / ".venv" / "sparks"))
WITHOUT: Final = "without"
AT: Final = 42
TERM_S: Final = 900.0


@lru_cache
def wheel() -> Path:
    """What there is of Isthmus now, as it is installed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(FOLDER / "wheel")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = (FOLDER / "wheel").glob("*.whl")
    return built


@lru_cache
def environment(version: str) -> Path:
    """The Python of an environment that has Isthmus with this Spark, or without any."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wanted = [str(wheel())] if version == WITHOUT else [f"{wheel()}[spark]", f"pyspark=={version}.*"]
    subprocess.run([*install, *wanted], check=True)
    # One of the same version that is there already was left as it is.
    subprocess.run([*install, "--force-reinstall", "--no-deps", str(wheel())], check=True)
    return python


def package(python: Path) -> Path:
    """The folder of an environment's pyspark."""
    (found,) = python.parents[1].glob("lib/python3*/site-packages/pyspark")
    return found


def spark_home(folder: Path, version: str) -> Path:
    """A Spark as its own archive unpacks: with `python` in it, for whoever has no package of it."""
    home, found = folder / "spark", package(environment(version))
    (home / "python" / "lib").mkdir(parents=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(found / name)
    for path in (found / "python" / "lib").iterdir():
        (home / "python" / "lib" / path.name).symlink_to(path)
    (home / "python" / "pyspark").symlink_to(found)
    return home


@pytest.mark.parametrize("version", VERSIONS)
def test_mirrors_and_verifies_on_a_spark_cluster(
    version: str, tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A master and two workers of this version run the leases and the comparison of both logs."""
    python = str(environment(version))
    shell = Shell(tmp_path, east, west, topic("spark"), python=python, PYSPARK_PYTHON=python, PYTHONPATH="")
    shell.term_s = TERM_S
    name = f"{shell.stem}.orders"
    topics.create(east, name, partitions=2)
    topics.produce(east, name, [Given(b"k", b"%d" % n, [], topics.SEPTEMBER) for n in range(1_000)])
    transactions.interleave(east, name, random.Random(version), steps=20, partitions=2)

    with standalone_spark(tmp_path, home=package(Path(python)), python=python) as cluster:
        conf = {key: value for key, value in cluster.conf.items() if key != "spark.executorEnv.PYTHONPATH"}
        shell.links[0]["transactions"] = {"aborted": "copy"}
        shell.configure(spark={"master": cluster.master, "conf": conf})
        (spark,) = [found for found in shell.run("doctor") if found["check"] == "spark"]
        assert spark["message"].startswith(f"Spark {version}.")
        assert shell.run("run", "--until", "caught-up")["caught_up"]
        oracle.assert_same(east, west, name, partitions=2)
        (verdict,) = shell.run("verify")
        assert verdict["equal"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_spark_of_spark_home_finds_every_difference(
    version: str, tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Where no pyspark is installed, that of SPARK_HOME mirrors, and its DataFrames tell what differs."""
    java = find_java().executable.resolve().parents[1]
    shell = Shell(
        tmp_path,
        east,
        west,
        topic("spark"),
        python=str(environment(WITHOUT)),
        PYTHONPATH="",
        SPARK_HOME=str(spark_home(tmp_path, version)),
        JAVA_HOME=str(java),
    )
    shell.term_s = TERM_S
    for kind, policy in (("plain", "delete"), ("keyed", "compact")):
        name = f"{shell.stem}.{kind}"
        topics.create_both(east, west, name, cleanup_policy=policy)
        topics.produce(east, name, [Given(b"%d" % n, b"v", [], topics.SEPTEMBER + n) for n in range(100)])
        forge(east, west, name, without(AT))
    topics.create(east, f"{shell.stem}.new")
    topics.produce(east, f"{shell.stem}.new", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 100)

    (verdict,) = shell.run("verify", "--topic", f"{shell.stem}.plain", "--topic", f"{shell.stem}.keyed", code=4)
    for found in verdict["topics"]:
        (finding,) = found["partitions"][0]["findings"]
        assert (finding["kind"], finding["offset_begin"], finding["offset_end"]) == ("missing", AT, AT + 1)
    shell.links[0]["topics"]["include"] = [f"{shell.stem}.new"]
    shell.configure()
    assert shell.run("run", "--until", "caught-up")["records"] == 100
    oracle.assert_same(east, west, f"{shell.stem}.new")
