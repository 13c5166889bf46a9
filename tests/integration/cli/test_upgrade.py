"""One version takes over from another while records flow, and back: with the same ledger, and nothing doubled."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.traffic import traffic
from testing.runs.command import ROOT, Shell

pytestmark = pytest.mark.integration

PREVIOUS = "a1913f8d036941b5f191a93db5a2a68614b6ab08"
"""An earlier version, as the history has it."""


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the earlier version."""
    archived = subprocess.run(["git", "archive", PREVIOUS, "src"], cwd=ROOT, capture_output=True, check=False)
    if archived.returncode:
        pytest.skip("the history is not here, and with it the earlier version")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as files:
        files.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous" / "src"


@contextmanager
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of which none is left afterwards."""
    runs: list[subprocess.Popen[str]] = []
    try:
        yield runs
    finally:
        for run in runs:
            if run.poll() is None:
                os.kill(run.pid, signal.SIGKILL)
                run.communicate()


def test_versions_take_over_from_one_another(
    tmp_path: Path, previous: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The new one stands by, goes on where the old one ended, and the old one goes on where the new one did."""
    stem = topic("upgrade")
    new = Shell(tmp_path, east, west, stem)
    old = Shell(tmp_path, east, west, stem, PYTHONPATH=str(previous))
    name = f"{stem}.a"
    topics.create(east, name)

    def until_led_by(run: subprocess.Popen[str]) -> None:
        """Until the run controls the link and copies."""
        deadline, led_from = time.monotonic() + TERM_S, None
        while True:
            (status,) = new.run("status")
            (target_end,) = [each["target_end"] for each in status["topics"]]
            if status["controller"]["pid"] == run.pid:
                led_from = target_end if led_from is None else led_from
                if target_end > led_from:
                    return
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, status

    with ended() as runs, traffic(east, name):
        for shell in (old, new, old):
            runs.append(shell.start("run", "--standby", stderr=subprocess.DEVNULL))
            if len(runs) > 1:
                runs[-2].send_signal(signal.SIGTERM)
            until_led_by(runs[-1])
        runs[-1].send_signal(signal.SIGTERM)
        for run in runs:
            run.communicate(timeout=TERM_S)
        assert {run.returncode for run in runs} == {128 + signal.SIGTERM}
    assert new.run("run", "--until", "caught-up")["caught_up"]
    oracle.assert_same(east, west, name)
