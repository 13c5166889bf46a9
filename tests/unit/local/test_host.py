"""What Linux tells of this process and others."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from isthmus.local import host
from isthmus.local.host import executor_id, liveness_of, start_of, whereabouts
from isthmus.model.process.whereabouts import UNKNOWN, Liveness, Whereabouts


def test_this_process_lives() -> None:
    """It finds itself by what it says of itself; a later process of the same pid would not be it."""
    here = whereabouts()
    assert here.host_id.endswith(f" {here.host}")
    assert here.pid == os.getpid()
    assert liveness_of(here) is Liveness.ALIVE
    assert liveness_of(replace(here, process_start=here.process_start - 1)) is Liveness.DEAD


def test_a_child_is_dead_once_it_has_ended_buried_or_not() -> None:
    """Without anybody to bury it a killed process stays as a zombie: it does nothing any more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = start_of(child.pid)
        assert start not in (None, UNKNOWN)
        there = replace(whereabouts(), pid=child.pid, process_start=start)
        assert liveness_of(there) is Liveness.ALIVE
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert liveness_of(there) is Liveness.DEAD
    assert liveness_of(there) is Liveness.DEAD


def test_a_hidden_process_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc may be mounted so that it shows only one's own processes."""
    monkeypatch.setattr(host, "stat_of", lambda pid: None)
    assert start_of(os.getpid()) == UNKNOWN
    assert start_of(0) == UNKNOWN


def test_where_the_host_cannot_be_told_nothing_is_concluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux, or with another namespace's /proc, no host is the same as this one."""
    here = whereabouts()
    monkeypatch.setattr(os, "readlink", lambda path: "1" if path == "/proc/self" else "pid:[1]")
    monkeypatch.setattr(os, "getpid", lambda: here.pid)
    assert whereabouts().host_id == ""
    assert liveness_of(here) is Liveness.UNKNOWN
    assert liveness_of(Whereabouts()) is Liveness.UNKNOWN


@pytest.mark.parametrize(
    ("words", "executor"),
    [
        (["java", "Backend", "--executor-id", "12", "--cores", "1"], "12"),
        (["java", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], "driver"),
        (["java", "--executor-id"], ""),
    ],
)
def test_a_worker_knows_its_executor_by_the_jvm_above_its_daemon(words: list[str], executor: str) -> None:
    """Spark does not tell it."""
    worker = "from isthmus.local.host import executor_id; print(executor_id(), flush=True)"
    daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    jvm = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {daemon!r}])"
    told = subprocess.run([sys.executable, "-c", jvm, *words], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == executor


def test_whoever_is_no_worker_has_no_executor() -> None:
    """As this process."""
    assert executor_id() == ""
