"""`isthmus cluster`, as people and scripts call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.records import topics
from testing.runs import command

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def configured(tmp_path: Path, east: LocalCluster) -> dict[str, str]:
    """The environment of a command with a configuration that knows `east`."""
    path = tmp_path / "isthmus.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"east": {"bootstrap_servers": east.bootstrap_servers}}}))
    return {**os.environ, "ISTHMUS_CONFIG": str(path), "PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def run(configured: dict[str, str]) -> Run:
    """Runs `isthmus cluster` to its end."""

    def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command.run("cluster", *arguments, env=configured)

    return _run


def test_description_is_for_people_and_for_programs(run: Run, east: LocalCluster) -> None:
    """A table with the parts that matter, more of them when wide, and everything as JSON."""
    table, wide, told = (
        run("describe", "east"),
        run("describe", "east", "-o", "wide"),
        run("describe", "east", "-o", "json"),
    )

    assert (table.returncode, wide.returncode, told.returncode) == (0, 0, 0)
    report = json.loads(told.stdout)
    assert report["mode"] == "kraft"
    assert [broker["endpoint"] for broker in report["brokers"]] == [east.bootstrap_servers]
    assert report["cluster_id"] in table.stdout
    settings = {setting["name"]: setting["value"] for setting in report["settings"]}
    assert settings["replica.lag.time.max.ms"] == "30000"
    assert settings["auto.leader.rebalance.enable"] == "true"
    assert settings["offsets.commit.timeout.ms"] == "5000"
    assert settings["offsets.retention.minutes"] == "10080"
    assert "offsets.commit.timeout.ms" in wide.stdout
    assert "brokers" in {finding["check"] for finding in report["findings"]}, "one broker is too few"
    assert "metadata.version" in wide.stdout
    assert "metadata.version" not in table.stdout


def test_topics_are_shown_by_partition(run: Run, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """A row for each partition; a topic that is not there ends with the code of wrong usage."""
    name = topic("shown")
    topics.create(east, name, partitions=3)
    table, told = run("topics", "east", "--topic", name), run("topics", "east", "--topic", name, "-o", "yaml")

    assert table.stdout.count(name) == 3
    partitions = yaml.safe_load(told.stdout)["partitions"]
    assert [(p["partition"], p["leader"], p["high_watermark"]) for p in partitions] == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
    assert {p["unclean_leader_election"] for p in partitions} == {False}
    wide = run("topics", "east", "--topic", name, "-o", "wide")
    assert "replica.lag.time.max.ms" in wide.stdout
    assert run("topics", "east", "--topic", f"{name}x").returncode == 2
    assert run("topics", "nowhere").returncode == 2


def test_lists_show_the_logical_names(
    tmp_path: Path, run: Run, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Of topics and groups, by the templates of the cluster: beside the technical ones where they differ."""
    logical = topic("orders").replace("-", ".")
    name = f"acme-live-{logical}"
    topics.create(east, name)
    consumers.commit(east, {name: {(name, 0): 0}})
    templates = {"topics": "{tenant}-{env}-{topic}", "groups": "{tenant}-{env}-{group}"}
    cluster = {"bootstrap_servers": east.bootstrap_servers, "names": templates}
    path = tmp_path / "named.yaml"
    path.write_text(yaml.safe_dump({"clusters": {"east": cluster}}))

    for listed, part in (("topics", "partitions"), ("groups", "groups")):
        question = (listed, "east", f"--{listed[:-1]}", name)
        told = json.loads(run(*question, "-c", str(path), "-o", "json").stdout)
        assert [each["name"] for each in told[part]] == [logical]
        assert logical in run(*question, "-c", str(path)).stdout.replace(name, "")
        assert logical not in run(*question).stdout.replace(name, "")


def test_elections_have_to_be_named_and_may_be_needless(
    run: Run, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Without --preferred nothing is done; where the preferred replica leads nothing has to be."""
    name = topic("elected")
    topics.create(east, name)

    assert run("elect-leaders", "east", "--topic", name).returncode == 2
    done = run("elect-leaders", "east", "--preferred", "--topic", name, "-o", "json")
    assert done.returncode == 0
    assert [election["outcome"] for election in json.loads(done.stdout)] == ["not-needed"]


def test_kraft_cluster_says_that_it_has_no_zookeeper(run: Run) -> None:
    """That is an answer, not an error, and comes with the same tree."""
    shown = run("registry", "east")

    assert shown.returncode == 0
    assert "has no ZooKeeper" in shown.stderr
    assert "brokers" in shown.stdout


def test_watched_registry_tells_what_changes(
    configured: dict[str, str], east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The tree first, then a line for each change as it happens, until it is interrupted."""
    name = topic("watched")
    words = ("cluster", "registry", "east", "--watch")
    with command.start(*words, env=configured, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "east\n"
        topics.create(east, name)
        line = next(line for line in watching.stdout if name in line)
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
    assert f"{name}-0 is led by 1 in epoch 0, in sync are 1" in line
    assert watching.returncode == 128 + signal.SIGINT
