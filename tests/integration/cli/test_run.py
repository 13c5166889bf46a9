"""The commands that run and show links, as people and scripts call them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell, children, everything

pytestmark = pytest.mark.integration


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link mirrors one topic with a hundred records."""
    made = Shell(tmp_path, east, west, topic("cli"))
    topics.create(east, f"{made.stem}.a")
    topics.produce(east, f"{made.stem}.a", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 100)
    return made


def test_plan_run_status(shell: Shell, east: LocalCluster) -> None:
    """What is planned is done by the run, and then nothing is left to do; results are JSON on stdout."""
    plan = shell.run("plan", "--detailed-exitcode", code=3)
    (planned,) = plan["links"][0]["topics"]
    assert (planned["action"], planned["mode"], planned["records_to_copy"]) == ("create", "identity", 100)
    assert shell.run("run", "--dry-run") == plan
    tasks = {task["loop"]: task["state"] for task in shell.run("status", shell.stem, "--tasks")}
    assert (tasks["data"], tasks["topics"], tasks["configs"], tasks["verify"]) == (*["STOPPED"] * 3, "NOT_CONFIGURED")
    outcome = shell.run("run", "--until", "caught-up")
    assert (outcome["caught_up"], outcome["records"]) == (True, 100)
    assert outcome["links"][0]["topics"][0]["lag_records"] == 0
    assert shell.run("plan", "--detailed-exitcode")["has_changes"] is False
    topics.produce(east, f"{shell.stem}.a", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 3)
    assert shell.run("status", shell.stem, "--leases") == []
    (status,) = shell.run("status")
    (partition,) = status["topics"][0]["partitions"]
    ends = [partition[key] for key in ("source_end", "target_end", "lag_records")]
    assert (status["state"], ends) == ("STOPPED", [103, 100, 3])
    # The oldest record that is missing is as old as its timestamp.
    age_s = time.time() - topics.SEPTEMBER / 1000
    assert partition["lag_seconds"] == pytest.approx(age_s, abs=TERM_S)
    with shell.start("status", "--partitions") as command:
        rows = [line.split() for line in command.communicate(timeout=TERM_S)[0].splitlines()]
    (row,) = [row for row in rows if f"{shell.stem}.a" in row]
    assert row[:7] == [shell.stem, f"{shell.stem}.a", "0", "STOPPED", "103", "100", "3"]
    assert all(finding["level"] != "error" for finding in shell.run("doctor"))


def test_plan_of_what_cannot_be_copied_ends_as_its_run(shell: Shell, west: LocalCluster) -> None:
    """With one and the same code, for whatever else there is to do; nothing was written to find out."""
    topics.create(west, f"{shell.stem}.a")
    topics.produce(west, f"{shell.stem}.a", [Given(b"k", b"theirs", [], topics.SEPTEMBER)] * 99)
    plan = shell.run("plan", code=1)
    (planned,) = plan["links"][0]["topics"]
    assert (planned["action"], planned["states"], planned["records_to_copy"]) == ("refuse", ["FOREIGN_WRITE"], 0)
    assert shell.run("plan", "--detailed-exitcode", code=1) == plan
    assert shell.run("run", "--dry-run", code=1) == plan
    outcome = shell.run("run", "--until", "caught-up", code=1)
    assert outcome["links"][0]["topics"][0]["state"] == "FOREIGN_WRITE"


def outcomes(told: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What came of a verb, link by link."""
    return [(row["link"], row["outcome"]) for row in told]


def test_paused_link_is_left_alone(shell: Shell) -> None:
    """A pause is kept in the ledger, so it holds for runs that start later too, and none of them says caught up."""
    assert outcomes(shell.run("pause", shell.stem, "--dry-run")) == [(shell.stem, "to be paused")]
    told = shell.run("pause", shell.stem, "nowhere", code=2)
    assert outcomes(told) == [(shell.stem, "paused"), ("nowhere", "failed")]
    assert told[1]["problem"]["code"] == "ISTH-CONFIG"
    assert outcomes(shell.run("pause", shell.stem)) == [(shell.stem, "was paused")]
    selects, unknown = shell.run("filters", shell.stem, "nowhere", code=2)
    assert (selects["link"], selects["topics_include"], selects["problem"]) == (shell.stem, [f"{shell.stem}.*"], None)
    assert (unknown["link"], unknown["problem"]["code"]) == ("nowhere", "ISTH-CONFIG")
    limited, unknown = shell.run("settings", shell.stem, "nowhere", "--set", "limits.bytes_per_s=50MiB", code=2)
    assert (limited["settings"]["limits.bytes_per_s"], limited["problem"]) == (50 << 20, None)
    assert (unknown["link"], unknown["problem"]["code"]) == ("nowhere", "ISTH-CONFIG")
    outcome = shell.run("run", "--until", "caught-up", code=5)
    (link,) = outcome["links"]
    assert (outcome["records"], outcome["caught_up"]) == (0, False)
    assert (link["state"], link["lag_records"], link["caught_up"]) == ("PAUSED", 100, False)
    (status,) = shell.run("status")
    assert (status["state"], status["lag_records"]) == ("PAUSED", 100)
    assert outcomes(shell.run("resume", shell.stem, "--dry-run")) == [(shell.stem, "to be resumed")]
    assert outcomes(shell.run("resume", shell.stem)) == [(shell.stem, "resumed")]
    assert outcomes(shell.run("resume", shell.stem)) == [(shell.stem, "was not paused")]
    (planned,) = shell.run("plan", "--link", shell.stem)["links"]
    assert planned["topics"][0]["records_to_copy"] == 100
    assert planned["settings"]["changed"] == {"limits.bytes_per_s": "50MiB"}


def test_single_node_cluster(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """A run copies what is there, and a topic that comes later. Told to end, it does so with the signal's exit code and
    leaves no process.
    """
    shell.configure(links=[{**shell.links[0], "topics_interval_s": 0.5}])
    with shell.start("run", "-o", "json") as command:
        await_copied(command, west, f"{shell.stem}.a", 100)
        topics.create(east, f"{shell.stem}.later")
        topics.produce(east, f"{shell.stem}.later", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)
        await_copied(command, west, f"{shell.stem}.later", 10)
        found = children(command.pid)
        assert found
        command.send_signal(signal.SIGTERM)
        said, told = command.communicate(timeout=TERM_S)
    assert command.returncode == 128 + signal.SIGTERM, told
    outcome = json.loads(said)
    assert (outcome["caught_up"], outcome["records"]) == (False, 110)
    deadline = time.monotonic() + TERM_S
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_sighup_has_the_configuration_read_again(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """A topic that the file includes from then on is copied by the run that is there. It ends in good order, though
    SIGTERM comes twice in the same breath, as `timeout` sends it.
    """
    other = f"other-{shell.stem}"
    topics.create(east, other)
    topics.produce(east, other, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)

    with shell.start("run", "-o", "json") as command:
        await_copied(command, west, f"{shell.stem}.a", 100)
        (link,) = shell.links
        shell.configure(links=[{**link, "topics": {"include": [f"{shell.stem}.*", other]}}])
        command.send_signal(signal.SIGHUP)
        await_copied(command, west, other, 10)
        command.send_signal(signal.SIGTERM)
        time.sleep(0.02)
        command.send_signal(signal.SIGTERM)
        _, told = command.communicate(timeout=TERM_S)
    assert command.returncode == 128 + signal.SIGTERM, told
    assert shell.run("status")[0]["controller"]["state"] == "NONE"
    assert "topics.include changed, and is followed" in " ".join(told.split())


def await_copied(command: subprocess.Popen[str], cluster: LocalCluster, name: str, end: int) -> None:
    """Wait until a topic that a running command copies ends there."""
    deadline = time.monotonic() + TERM_S
    while name not in topics.names(cluster) or oracle.ends(cluster.bootstrap_servers, name).high < end:
        assert time.monotonic() < deadline
        assert command.poll() is None
        time.sleep(0.2)


def test_spark_does_not_write_into_a_live_table(shell: Shell) -> None:
    """On a terminal there is nothing but ours: every JVM of Spark has a warning to tell, and it is left out."""
    screen, terminal = os.openpty()
    with open(screen, "rb", buffering=0) as seen, ThreadPoolExecutor(1) as threads:
        reading = threads.submit(everything, seen)
        command = shell.start("run", "--until", "caught-up", "-o", "json", stderr=terminal)
        os.close(terminal)
        said, _ = command.communicate(timeout=TERM_S)
        shown = reading.result(TERM_S)
    assert (command.returncode, json.loads(said)["records"]) == (0, 100)
    assert b"copied" in shown
    assert b"WARNING" not in shown


def test_a_jvm_that_does_not_start_is_heard(shell: Shell) -> None:
    """Its own words are on stderr, wherever it wrote them, and never among the results."""
    shell.configure(spark={"master": "local[2]", "conf": {"spark.driver.extraJavaOptions": "--add-modules=nowhere"}})
    with shell.start("run", "--until", "caught-up", "-o", "json") as command:
        said, told = command.communicate(timeout=TERM_S)
    assert (command.returncode, json.loads(said)["caught_up"]) == (1, False)
    assert "Module nowhere not found" in told
    assert "JAVA_GATEWAY_EXITED" in told


def test_unreachable_cluster_is_named(tmp_path: Path, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """Reading commands say which cluster does not answer, and exit with the code of that: the doctor with 1."""
    away = Shell(tmp_path, east, east, topic("away"))
    path = tmp_path / "isthmus.yaml"
    path.write_text(path.read_text().replace(east.bootstrap_servers, "127.0.0.1:1"))
    assert "does not answer" in away.run("plan", code=10)["links"][0]["problem"]["message"]
    (status,) = away.run("status", code=10)
    assert (status["state"], status["problem"]["hint"] != "") == ("UNAVAILABLE", True)
    assert [f["subject"] for f in away.run("doctor", code=1) if f["level"] == "error"] == ["east", "west"]
