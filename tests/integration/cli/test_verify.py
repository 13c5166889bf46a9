"""`isthmus verify`, as people and scripts call it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import topics
from testing.records.forgery import forge
from testing.records.mapped import HandMade
from testing.records.pair import without
from testing.records.topics import Given
from testing.runs.command import Shell, children

pytestmark = pytest.mark.integration

AT = 42


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link mirrors two topics with a hundred records each; one copy lacks a record."""
    made = Shell(tmp_path, east, west, topic("verify"))
    for name, tamper in (("good", without()), ("bad", without(AT))):
        topics.create_both(east, west, f"{made.stem}.{name}")
        topics.produce(east, f"{made.stem}.{name}", [Given(b"k", b"v", [], topics.SEPTEMBER + n) for n in range(100)])
        forge(east, west, f"{made.stem}.{name}", tamper)
    return made


def test_verdicts(shell: Shell) -> None:
    """Exit code 4 and the offset when logs differ, 0 when they do not; a mistyped topic is a mistake."""
    (verdict,) = shell.run("verify", code=4)
    bad, good = verdict["topics"]
    (partition,) = bad["partitions"]

    assert (verdict["link"], verdict["equal"], verdict["records"]) == (shell.stem, False, 200)
    assert (good["source_topic"], good["partitions"][0]["missing"]) == (f"{shell.stem}.good", 0)
    assert partition["missing"] == 1
    assert partition["findings"] == [
        {"kind": "missing", "offset_begin": AT, "offset_end": AT + 1, "records": 1, "fields": [], "target_offset": None}
    ]
    assert good["offsets"] == "same"
    shell.run("verify", "--topic", f"{shell.stem}.goood", code=2)
    shell.run("verify", "--since", "yesterday", code=2)


def test_mapped_topics(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """Of a topic with a map in the ledger it is told, and its records are compared by that."""
    name = f"{shell.stem}.mapped"
    topics.create_both(east, west, name)
    made = HandMade(east, west, shell.stem, name)
    made.at_target([Given(b"k", b"of others", [], topics.SEPTEMBER)] * 5)
    made.copy([Given(b"k", b"%d" % n, [], topics.SEPTEMBER) for n in range(10)])
    made.told()
    (verdict,) = shell.run("verify", "--topic", name)
    (mapped,) = verdict["topics"]
    assert (mapped["offsets"], verdict["equal"], verdict["records"]) == ("mapped", True, 10)


def test_table_of_some_topics(shell: Shell) -> None:
    """People read on stdout how each topic is, and on stderr how it ended; topics and times can be chosen."""
    with shell.start(
        "verify", "--link", shell.stem, "--topic", f"{shell.stem}.good", "--since", "2024-01-01"
    ) as command:
        said, told = command.communicate(timeout=TERM_S)

    assert command.returncode == 0, told
    assert f"{shell.stem}.good" in said
    assert f"{shell.stem}.bad" not in said
    assert "east and west hold the same: 100 records" in told
    assert "Traceback" not in told


def test_interruption_ends_it(shell: Shell) -> None:
    """Ctrl-C ends a verification soon, with one message, and leaves nothing running."""
    with shell.start("verify") as command:
        deadline = time.monotonic() + TERM_S
        # Its JVM, and what that starts for the first of the job's tasks.
        found: list[int] = []
        while not any(children(jvm) for jvm in found):
            assert time.monotonic() < deadline
            assert command.poll() is None
            time.sleep(0.05)
            found = children(command.pid)
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=TERM_S)

    assert command.returncode in (128 + signal.SIGINT, 4), told
    assert "Traceback" not in told
    # The JVM goes when it finds its driver gone.
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        assert time.monotonic() < deadline
        time.sleep(0.1)
