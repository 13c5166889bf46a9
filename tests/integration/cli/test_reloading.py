"""A link whose transform is changed in the file while it runs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell

pytestmark = pytest.mark.integration


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link changes the records of one topic, and copies the other as it is."""
    made = Shell(tmp_path, east, west, topic("reloading"))
    write(made, "headers.by", "'first'")
    for name in ("orders", "plain"):
        topics.create(east, f"{made.stem}.{name}")
        topics.produce(east, f"{made.stem}.{name}", numbers(20))
    return made


def write(shell: Shell, path: str, expression: str) -> None:
    shell.links[0]["transform"] = [{"topics": [f"{shell.stem}.orders"], "set": {path: expression}}]
    shell.configure()


def numbers(count: int) -> list[Given]:
    return [Given(b"%d" % number, b"{}", [], topics.SEPTEMBER + number) for number in range(count)]


def await_end(cluster: LocalCluster, name: str, end: int) -> None:
    deadline = time.monotonic() + TERM_S
    while name not in topics.names(cluster) or oracle.ends(cluster.bootstrap_servers, name).high < end:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def orders_of(shell: Shell, command: str) -> dict[str, Any]:
    """The topic that is changed, as a command shows it."""
    found = shell.run(command)
    links = found["links"] if command == "plan" else found
    return next(each for each in links[0]["topics"] if each["topic"] == f"{shell.stem}.orders")


def test_a_run_with_the_former_transform_is_said_until_sighup(
    shell: Shell, east: LocalCluster, west: LocalCluster
) -> None:
    """Status and plan say it; then the new one is taken without any partition that shows as blocked for it."""
    orders = f"{shell.stem}.orders"
    with shell.start("run", "-o", "json") as command:
        try:
            await_end(west, orders, 20)
            assert not orders_of(shell, "status")["transform_awaits_reload"]
            write(shell, "headers.by", "'second'")
            assert orders_of(shell, "status")["transform_awaits_reload"]
            assert orders_of(shell, "plan")["transform_awaits_reload"]
            with shell.start("status") as status:
                _, told = status.communicate(timeout=TERM_S)
            assert "still has another transform than the file" in " ".join(told.split())
            topics.produce(east, orders, numbers(10))
            await_end(west, orders, 30)
            with shell.start("status", "--watch", "--interval", "0.2s", "-o", "json") as watch:
                assert watch.stdout is not None
                command.send_signal(signal.SIGHUP)
                problems, is_reloaded = list[str](), False
                for line in watch.stdout:
                    found = json.loads(line)["links"][0]["topics"]
                    problems += [json.dumps(each["problem"]) for each in found if each["state"] == "BLOCKED"]
                    if not is_reloaded and not any(each["transform_awaits_reload"] for each in found):
                        is_reloaded = True
                        topics.produce(east, orders, numbers(10))
                    if is_reloaded and oracle.ends(west.bootstrap_servers, orders).high >= 40:
                        break
                watch.kill()
            # On a machine with too much to do a cluster may not answer for a moment.
            assert not [each for each in problems if "transform" in each]
        finally:
            command.send_signal(signal.SIGTERM)
            command.communicate(timeout=TERM_S)
    made = [dict(each.headers)["by"] for each in oracle.records(west.bootstrap_servers, orders)[0]]
    assert made == [b"first"] * 30 + [b"second"] * 10


RULES = """
import pyarrow as pa
import words

def mark(rows):
    return rows.set_column(1, "value", pa.array([words.WORD] * rows.num_rows, pa.binary()))
"""


def test_a_module_that_is_edited_counts_from_sighup_on(
    shell: Shell, east: LocalCluster, west: LocalCluster, tmp_path: Path
) -> None:
    """Until then all workers have what the run has read, and the ledger has both, each from its offset on."""
    orders, words = f"{shell.stem}.orders", tmp_path / "words.py"
    (tmp_path / "rules.py").write_text(RULES)
    words.write_text("WORD = b'first'\n")
    shell.links[0]["transform"] = [{"topics": [orders], "python": "rules:mark"}]
    shell.configure(spark={"master": "local[2]", "lease_term_s": 5})

    with shell.start("run", "-o", "json") as command:
        try:
            await_end(west, orders, 20)
            words.write_text("WORD = b'second'\n")
            assert orders_of(shell, "status")["transform_awaits_reload"]
            topics.produce(east, orders, numbers(10))
            await_end(west, orders, 30)
            command.send_signal(signal.SIGHUP)
            while orders_of(shell, "status")["transform_awaits_reload"]:
                pass
            topics.produce(east, orders, numbers(10))
            await_end(west, orders, 40)
        finally:
            command.send_signal(signal.SIGTERM)
            command.communicate(timeout=TERM_S)
    made = [each.value for each in oracle.records(west.bootstrap_servers, orders)[0]]
    assert made == [b"first"] * 30 + [b"second"] * 10
    (origin,) = shell.run("provenance", orders)
    assert [each["offset_begin"] for each in origin["transforms"]] == [0, 30]
