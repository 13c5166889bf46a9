"""`isthmus local` starts clusters that outlive the command, and leaves nothing behind it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from isthmus.local.probe import knows
from testing.brokers.proxy import cluster_ports
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from isthmus.cli.app import main; main()", "local"]


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Runs `isthmus local` with a state folder of its own."""

    state: Path
    base_port: int

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The command, running."""
        found = {**os.environ, "XDG_STATE_HOME": str(self.state), "PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env={**found, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the command."""
        with self.start(*arguments, **environment) as command:
            said, told = command.communicate(timeout=TERM_S)
        return command.returncode, said, told

    def up(self, *arguments: str) -> list[dict[str, Any]]:
        """What `up` says of one cluster of one broker."""
        shape = ("--clusters", "solo", "--brokers", "1", "--base-port", str(self.base_port))
        code, said, told = self.run("up", *shape, "-o", "json", *arguments)
        assert code == 0, told
        return list(json.loads(said))

    def status(self) -> list[dict[str, Any]]:
        """What `status` says."""
        return list(json.loads(self.run("status", "-o", "json")[1]))

    def running(self) -> list[int]:
        """The processes that run with a file below the state folder, whoever started them."""
        lines = (file for file in Path("/proc").glob("[0-9]*/cmdline"))
        return [int(file.parent.name) for file in lines if str(self.state) in _text(file)]


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the process has ended
        return ""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell without clusters; what a test leaves running is stopped."""
    base_port, _ = cluster_ports(3, secure=True)
    shell = Shell(state=tmp_path, base_port=base_port)
    yield shell
    shell.run("down", "--wipe", "--yes")


def test_a_cluster_outlives_the_command(shell: Shell) -> None:
    """Up, up again, down, up with the kept data, down and wiped: each says how things are."""
    (up,) = shell.up()
    assert (up["name"], up["state"]) == ("solo", "running")
    assert up["bootstrap_servers"] == f"127.0.0.1:{shell.base_port}"
    deadline = time.monotonic() + TERM_S
    while knows(shell.base_port, 1, cluster="solo") != 1:
        assert time.monotonic() < deadline
    assert shell.up() == shell.status() == [up]

    assert json.loads(shell.run("down", "-o", "json")[1]) == [{"name": "solo", "state": "stopped"}]
    (down,) = shell.status()
    assert down["brokers"] == [{**up["brokers"][0], "state": "stopped", "pid": None}]
    assert shell.running() == []

    (again,) = shell.up()
    assert again["cluster_id"] == up["cluster_id"]
    assert yaml.safe_load(shell.run("down", "--wipe", "--yes", "-o", "yaml")[1]) == [{"name": "solo", "state": "wiped"}]
    assert shell.status() == []
    assert shell.running() == []


def test_a_secured_cluster_tells_how_to_log_in(shell: Shell) -> None:
    """What is to be configured goes to stderr, by reference: the password itself is nowhere."""
    (up,) = shell.up("--secure")
    password = Path(up["password_file"]).read_text()
    code, said, told = shell.run("status")
    assert code == 0
    assert f"{shell.base_port}" in said
    section = yaml.safe_load(told.partition("\n")[2])["solo"]
    assert section["bootstrap_servers"] == up["bootstrap_servers"]
    assert section["security"]["password"] == f"${{file:{up['password_file']}}}"
    assert section["security"]["tls"] == {"ca_file": up["ca_file"]}
    assert password not in said + told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_start_leaves_nothing_running(shell: Shell, number: signal.Signals) -> None:
    """A signal while brokers start ends them all, and the exit code says which it was."""
    for _ in range(5):
        with shell.start("up", "--clusters", "east", "--base-port", str(shell.base_port)) as command:
            while not shell.running():
                assert command.poll() is None
                time.sleep(0.01)
            command.send_signal(number)
            told = command.communicate(timeout=TERM_S)[1]
        if command.returncode != 0:
            break
        # On a starved machine the start may be over before the signal is sent: then there was nothing to interrupt.
        shell.run("down", "--wipe", "--yes")
    assert command.returncode == (-number if number == signal.SIGKILL else 128 + number), told
    deadline = time.monotonic() + TERM_S
    while shell.running():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_up_starts_what_is_there(shell: Shell) -> None:
    """What was stopped starts as it was, without its shape being named again."""
    (up,) = shell.up("--secure")
    shell.run("down")
    code, said, told = shell.run("up", "--clusters", "solo", "-o", "json")
    assert code == 0, told
    (again,) = json.loads(said)
    for name in ("cluster_id", "secure", "bootstrap_servers"):
        assert again[name] == up[name]
    assert (len(again["brokers"]), again["state"]) == (1, "running")


def test_another_shape_is_refused(shell: Shell) -> None:
    """A cluster that is there is not replaced by another: what it is is told, and how to start or to remove it."""
    shell.up()
    shape = {"--brokers": ("2",), "--secure": (), "--base-port": (str(shell.base_port + 300),)}
    told = {}
    for option, value in shape.items():
        code, _, told[option] = shell.run("up", "--clusters", "solo", option, *value)
        assert code == 6, told[option]
        assert "local up --clusters solo`" in told[option]
        assert "local down --clusters solo --wipe" in told[option]
    assert "it has 1 broker, not 2" in told["--brokers"]
    assert "it is not secured" in told["--secure"]
    assert f"listens on port {shell.base_port}, not on {shell.base_port + 300}" in told["--base-port"]
    assert shell.status()[0]["state"] == "running"


def test_a_busy_port_is_told(shell: Shell) -> None:
    """The port is named, with what to do, and nothing is left."""
    with socket.create_server(("127.0.0.1", shell.base_port)):
        code, said, told = shell.run("up", "--clusters", "solo", "--base-port", str(shell.base_port))
    assert (code, said) == (21, "")
    assert f"{shell.base_port}" in told
    assert "--base-port" in told
    assert shell.running() == []


def test_what_the_machine_lacks_is_told(shell: Shell, tmp_path: Path) -> None:
    """Neither Java nor jars: an exit code each, and what to do about it."""
    code, _, told = shell.run("up", PATH=os.devnull, JAVA_HOME="")
    assert (code, "JAVA_HOME" in told) == (20, True)
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9"
    code, _, told = shell.run("up", XDG_CACHE_HOME=str(tmp_path / "empty"), JAVA_TOOL_OPTIONS=nowhere)
    assert (code, "Connect to the network" in told) == (22, True)
    assert shell.status() == []


@pytest.mark.parametrize("names", ["../east", "East", "a b"])
def test_a_name_is_no_path(shell: Shell, names: str) -> None:
    """A name that could lead elsewhere is refused by every command."""
    for command in ("up", "down", "status"):
        code, _, told = shell.run(command, "--clusters", names)
        assert (code, "cannot name a local cluster" in told) == (2, True), told


def test_what_is_not_there_is_told(shell: Shell) -> None:
    """A name without a cluster is told by `down` and `status`, and does no harm; `up` needs one."""
    for command in ("down", "status"):
        code, _, told = shell.run(command, "--clusters", "nobody")
        assert (code, told.splitlines()[0]) == (0, "there is no local cluster nobody")
    code, _, told = shell.run("up", "--clusters", ",")
    assert (code, "no cluster is named" in told) == (2, True)


@pytest.mark.parametrize("port", ["0", "-1", "65500", "70000"])
def test_a_port_that_cannot_be(shell: Shell, port: str) -> None:
    """It is named, with the ports there are."""
    code, _, told = shell.run("up", "--clusters", "solo", "--base-port", port)
    assert (code, f"{port} cannot be the port" in told, "from 1024 to" in told) == (2, True, True), told
