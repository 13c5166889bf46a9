"""`isthmus wait` on a real link."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from isthmus.status.status import PATIENCE_S
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.runs.command import Shell, everything

pytestmark = pytest.mark.integration


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link mirrors one topic with a hundred records, none of which is copied."""
    made = Shell(tmp_path, east, west, topic("wait"))
    topics.create(east, f"{made.stem}.a")
    topics.produce(east, f"{made.stem}.a", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 100)
    return made


def told(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    said, messages = command.communicate(timeout=TERM_S)
    return command.returncode, said, messages


def test_wait_until_a_run_has_caught_up(shell: Shell) -> None:
    """It begins before the run and ends once everything is copied; from then on it ends at once."""
    waiting = shell.start("wait", f"{shell.stem}/{shell.stem}.a", "--for", "caught-up", "-o", "json")
    assert waiting.stderr is not None
    first = waiting.stderr.readline()
    while "waiting for caught-up" not in first:
        assert first, told(waiting)
        first = waiting.stderr.readline()
    shell.run("run", "--until", "caught-up")
    code, said, messages = told(waiting)
    assert code == 0, messages
    found = json.loads(said)
    assert (found["met"], found["status"]["lag_records"], found["status"]["target_end"]) == (True, 0, 100)
    assert f"{shell.stem}.a is STOPPED, lag 100; waiting for caught-up" in first

    met = shell.run("wait", shell.stem, "--for", "lag<=0", "--for", "state=STOPPED", "--timeout", "0")
    assert (met["name"], met["unmet"]) == (shell.stem, [])


def test_time_that_is_over_has_an_exit_code_of_its_own(shell: Shell) -> None:
    """5, the conditions that did not hold, and what to do; scripts get the last look."""
    code, said, messages = told(shell.start("wait", shell.stem, "--for", "lag<=99", "--timeout", "0", "-o", "json"))
    assert (code, json.loads(said)["unmet"]) == (5, ["lag<=99"])
    assert "lag 100 after 0 s, and not lag<=99" in messages
    assert "Start one: isthmus run" in messages
    assert shell.run("wait", shell.stem, "--for", "lag<=100", "--timeout", "0")["met"] is True


def test_a_look_at_a_cluster_that_hangs_is_given_up_when_the_time_is_over(shell: Shell, east: LocalCluster) -> None:
    """The message has the time that passed, and what was seen last."""
    waiting = shell.start("wait", shell.stem, "--for", "caught-up", "--timeout", "4s", "-o", "json")
    assert waiting.stderr is not None
    first = waiting.stderr.readline()
    try:
        for broker in east.brokers:
            broker.pause()
        code, said, messages = told(waiting)
    finally:
        for broker in east.brokers:
            broker.resume()
    assert "lag 100; waiting for caught-up" in first
    found = json.loads(said)
    assert (code, found["met"], found["status"]["lag_records"]) == (5, False, 100)
    assert 4 <= found["elapsed_seconds"] < PATIENCE_S
    assert f"lag 100 after {found['elapsed_seconds']:.0f} s, and not caught-up" in messages


def test_what_cannot_be_waited_for_is_told_at_once(shell: Shell) -> None:
    """A topic that the link does not mirror, and a state that there is not, are mistakes."""
    for arguments in ((f"{shell.stem}/elsewhere", "--for", "caught-up"), (shell.stem, "--for", "state=READY")):
        code, said, messages = told(shell.start("wait", *arguments))
        assert (code, said) == (2, "")
        assert "Suggestion: " in messages


def test_several_are_waited_for_at_once(shell: Shell) -> None:
    """Each has a row with its problem, in the order given; the command ends as the first that failed would have."""
    names = (shell.stem, f"{shell.stem}/{shell.stem}.a", f"{shell.stem}/elsewhere")
    met = shell.run("wait", *names[:2], "--for", "lag<=100", "--timeout", "0")
    assert [(each["name"], each["met"], each["problem"]) for each in met] == [(name, True, None) for name in names[:2]]

    code, said, _ = told(shell.start("wait", *names, "--for", "lag<=99", "--timeout", "0", "-o", "json"))
    rows = json.loads(said)
    assert code == 5
    assert [(each["name"], each["problem"]["code"]) for each in rows] == [
        *((name, "ISTH-GATE") for name in names[:2]),
        (names[2], "ISTH-CONFIG"),
    ]
    code, said, messages = told(shell.start("wait", *names, "--for", "lag<=100", "--timeout", "0", "-o", "name"))
    assert (code, said.split()) == (2, list(names[:2]))
    assert f"{names[2]}: ISTH-CONFIG" in messages


def test_a_terminal_has_a_line_of_progress(shell: Shell) -> None:
    """It says what is waited for and how far it is."""
    screen, terminal = os.openpty()
    with (
        open(screen, "rb", buffering=0) as seen,
        shell.start("wait", shell.stem, "--for", "caught-up", "--timeout", "2s", stderr=terminal) as command,
    ):
        os.close(terminal)
        shown = everything(seen)
    assert command.returncode == 5
    assert b"lag 100; waiting for caught-up for" in shown


def test_watching_in_a_pipe(shell: Shell) -> None:
    """A line of JSON for each look, as soon as it was taken, until the reader has seen enough. A topic that is nowhere
    is an error.
    """
    with shell.start("status", "--watch", "--interval", "100ms", "--topic", f"{shell.stem}.*") as command:
        assert command.stdout is not None
        looks = [json.loads(command.stdout.readline()) for _ in range(3)]
        command.terminate()
    assert command.returncode == 143
    assert [look["links"][0]["topics"][0]["lag_records"] for look in looks] == [100] * 3
    assert shell.run("status", "--topic", "nothing", code=2) is None
