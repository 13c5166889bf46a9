"""The command as people and scripts meet it: its help, its exit codes and its endings."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from isthmus import __version__
from isthmus.cli import app
from isthmus.cli.reading import page
from testing.patience import TERM_S

SOURCE = Path(__file__).parents[3] / "src"
Start = Callable[..., "subprocess.Popen[str]"]

# Runs the command with one more, `act`, whose body the test gives.
PROGRAM = """\
import sys
from isthmus.cli import app
from isthmus.cli.reading import page
app.COMMANDS["act"] = app.Command("acting", "Act.")
{prelude}
app.main()
"""
LOADED = "import atexit; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))"
ACTING = """\
import os, sys, time, typer
from isthmus.cli.options import VerboseOption
from isthmus.cli.output import OutputFormat, console, render
from isthmus.errors import *

app = typer.Typer(add_completion=False)

@app.command()
def act(_verbose: VerboseOption = 0) -> None:
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command in a process of its own; `body` is what its command `act` does.

    `prelude` is run before any of it.
    """
    with contextlib.ExitStack() as started:

        def _start(
            *arguments: str,
            body: str = "pass",
            prelude: str = "",
            stdout: int = subprocess.PIPE,
            pass_fds: tuple[int, ...] = (),
            **environment: str,
        ) -> subprocess.Popen[str]:
            (tmp_path / "acting.py").write_text(ACTING + textwrap.indent(body, "    "))
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(prelude=prelude), *arguments],
                cwd=tmp_path,
                env={"PYTHONPATH": f"{SOURCE}:{tmp_path}", "PATH": os.environ["PATH"], **environment},
                text=True,
                stdout=stdout,
                stderr=subprocess.PIPE,
                pass_fds=pass_fds,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield _start


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a process, once it has ended."""
    out, err = process.communicate(timeout=TERM_S)
    return process.returncode, out, err


def test_help_lists_every_command(start: Start) -> None:
    """Help goes to stdout and names all commands with what they do."""
    code, out, _ = ended(start("--help"))

    assert code == 0
    for name, command in app.COMMANDS.items():
        assert name in out
        assert command.summary.split()[0] in out


def test_help_is_fast_because_it_loads_nothing_heavy(start: Start, tmp_path: Path) -> None:
    """Neither Spark nor pandas, neither a Kafka client nor pydantic is needed to print help."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "heavy = {'pyspark', 'pandas', 'pyarrow', 'kafka', 'aiokafka', 'pydantic'}\n"
        "atexit.register(lambda: sys.stderr.write(f'loaded: {heavy & set(sys.modules)}'))\n"
    )

    assert ended(start("--help"))[2] == "loaded: set()"


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """What the overview lists can be loaded, and explains itself."""
    result = CliRunner().invoke(app.app, [name, "--help"], prog_name="isthmus")

    assert (result.exit_code, result.stderr) == (0, "")
    assert f"isthmus {name}" in result.stdout
    assert "--install-completion" not in result.stdout


def test_help_says_plainly_what_is_done() -> None:
    """An option prints, shows or reports something: none of them tells it."""
    found = [each.summary for each in app.COMMANDS.values()]

    def look(command: Any) -> None:
        found.append(command.help or "")
        found.extend(each.help or "" for each in command.params if each.param_type_name == "option")
        for inner in getattr(command, "commands", {}).values():
            look(inner)

    look(get_command(app.app))
    for each in app.COMMANDS.values():
        look(get_command(import_module(each.module).app))
    words = {word for text in found for word in re.findall(r"\w+", text.lower())}
    assert words.isdisjoint({"tell", "tells", "telling", "told"})


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("BLOCKED", "the task waits for a change outside"),
        ("blocked", "the task waits for a change outside"),
        ("Status", "Usage: isthmus status"),
        ("RESERVED", "it is reserved, and no leader shows otherwise"),
        ("docs/networks.md", "# Networks"),
        ("networks", "# Networks"),
        ("groups", "Usage: isthmus groups"),
    ],
)
def test_states_pages_and_commands_are_explained(start: Start, topic: str, told: str) -> None:
    """What a message names is shown by the program itself: a state, a page of the documentation, a command."""
    code, out, _ = ended(start("help", topic))

    assert code == 0
    assert told in " ".join(out.split())


def test_a_configuration_is_named_before_the_command_too(start: Start) -> None:
    """As with `--context`: where a command takes one, it takes this one."""
    code, _, err = ended(start("-c", "nowhere.yaml", "status"))

    assert code == 2
    assert "nowhere.yaml" in err


def test_what_is_not_explained_is_told_with_what_is_like_it(start: Start) -> None:
    """Whatever it may be: a state, a page or a command."""
    code, _, err = ended(start("help", "blokced"))

    assert code == 2
    assert "there is no help on blokced" in err
    assert "isthmus help blocked" in " ".join(err.split())


def test_pages_that_messages_name_are_there() -> None:
    """Every hint that names a page leads somewhere, without the sources too."""
    named = {
        found
        for path in SOURCE.rglob("*.py")
        for found in re.findall(r"docs/[a-z0-9-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [name for name in sorted(named) if page(name) is None] == []


def test_help_names_no_types_of_a_programmer(start: Start) -> None:
    """A switch takes nothing, and a number is called one."""
    _, out, _ = ended(start("local", "up", "--help"))

    assert "<number>" in out
    assert not {"<bool>", "<int>", "<str>"} & set(out.split())


def test_version(start: Start) -> None:
    """--version prints the version alone."""
    assert ended(start("--version")) == (0, f"isthmus {__version__}\n", "")


def test_completion_knows_the_commands(start: Start) -> None:
    """The shell can complete commands."""
    completing = {"_ISTHMUS_COMPLETE": "complete_bash", "COMP_WORDS": "isthmus conf", "COMP_CWORD": "1"}

    assert ended(start(prelude="from isthmus.cli.entry import main; main()", **completing))[:2] == (0, "config\n")


def test_mistyped_command_is_a_usage_error(start: Start) -> None:
    """Exit code 2, and the nearest command is named."""
    code, out, err = ended(start("confg"))

    assert (code, out) == (2, "")
    assert "config" in err


def test_known_error_is_one_message_with_a_suggestion(start: Start) -> None:
    """Errors of Isthmus end with their own exit code, without a traceback and without markup."""
    body = "raise Unreachable('no [bold]broker\\x1b[2J answered', hint='Start it.')"

    assert ended(start("act", body=body)) == (
        10,
        "",
        "Error ISTH-UNREACHABLE: no [bold]broker[2J answered\nSuggestion: Start it.\n",
    )


def test_unexpected_error_is_one_line_that_asks_for_a_report(start: Start, tmp_path: Path) -> None:
    """A bug is told in one line; the traceback is there with -v, and in the log file."""
    code, out, err = ended(start("act", body="1 / 0"))
    assert (code, out) == (70, "")
    assert err.startswith("Error ISTH-INVARIANT: ZeroDivisionError: division by zero\nSuggestion: ")
    assert "report" in err

    assert "Traceback" in ended(start("act", "-v", body="1 / 0"))[2]
    assert "Traceback" in ended(start("-v", "act", body="1 / 0"))[2]
    assert "Traceback" not in ended(start("--log-file", str(tmp_path / "log.jsonl"), "act", body="1 / 0"))[2]
    kept = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert kept["message"].startswith("ISTH-INVARIANT: ZeroDivisionError")
    assert "1 / 0" in kept["error"]


def test_commands_choose_their_exit_code(start: Start) -> None:
    """A difference found by a verification is a result with a code of its own, not an error."""
    assert ended(start("act", body="raise typer.Exit(4)")) == (4, "", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_a_command_in_an_orderly_way(start: Start, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM run what has to be cleaned up, say so and exit with 128 + the number."""
    process = start(
        "act",
        body="""\
try:
    print("ready", flush=True)
    # A signal that comes just before a sleep begins is heard of when it ends: a long one would miss it.
    while True:
        time.sleep(0.01)
finally:
    print("cleaned up")
""",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    process.send_signal(number)

    assert ended(process) == (code, "cleaned up\n", "stopped\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_before_a_command_begins_ends_it_at_once(start: Start, number: signal.Signals, code: int) -> None:
    """The exit code is the same, and nobody is shown a traceback."""
    process = start(
        "act",
        prelude=f"""
import os, time
def invoke(*_):
    os.kill(os.getpid(), {number})
    while True:
        time.sleep(0.01)
app.Commands.invoke = invoke
""",
    )

    assert ended(process) == (code, "", "stopped\n")


def test_signal_after_a_command_has_ended_ends_it_at_once(start: Start) -> None:
    """Nobody is shown a traceback of the interpreter's own end."""
    body = """\
import atexit, signal
print("done")
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
"""

    assert ended(start("act", body=body)) == (143, "done\n", "stopped\n")


PRINTING = {
    "all at the end": "print('x' * 10)",
    "more than is buffered": "print('x' * 100_000)",
    "a table": "render([{'a': 'x' * 100_000}], OutputFormat.TABLE)",
}


@pytest.mark.parametrize("body", PRINTING.values(), ids=PRINTING)
def test_reader_that_leaves_is_not_an_error_message(start: Start, body: str) -> None:
    """`isthmus ... | head -1` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start("act", body=body, stdout=writing)
    os.close(writing)

    code, _, err = ended(process)
    assert (code, err) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "body"),
    [*((("act",), body) for body in PRINTING.values()), *((given, "") for given in (("--help",), ("--version",)))],
)
def test_results_that_cannot_be_written_are_an_error(start: Start, arguments: tuple[str, ...], body: str) -> None:
    """A full disk is told in one message, also when the output is only help, and is no bug."""
    with open("/dev/full", "w") as full:
        code, _, err = ended(start(*arguments, body=body or "pass", stdout=full.fileno()))

    assert code == 1
    assert err.startswith("Error ISTH-OUTPUT: cannot write the output: No space left on device\nSuggestion: ")
    assert err.count("\n") == 2


@pytest.mark.parametrize("body", PRINTING.values(), ids=PRINTING)
def test_results_nobody_wants(start: Start, body: str) -> None:
    """A closed stdout is no error."""
    prelude = "import os; os.close(1); sys.stdout = None"
    assert ended(start("act", body=body, prelude=prelude)) == (0, "", "")


def test_messages_that_cannot_be_written_end_nothing(start: Start) -> None:
    """A log on a full disk does not keep the command from doing its work."""
    body = """\
import logging
console.print("something", "x" * 100_000)
logging.getLogger("isthmus").warning("something")
print("done")
"""
    with open("/dev/full", "w") as full:
        prelude = f"import os; os.dup2({full.fileno()}, 2)"
        process = start("act", body=body, prelude=prelude, pass_fds=(full.fileno(),))
        assert ended(process)[:2] == (0, "done\n")


def test_help_loads_nothing_that_commands_need(start: Start) -> None:
    """What takes time to load is loaded by the command that needs it: help is there at once."""
    code, _, err = ended(start("--help", prelude=LOADED))
    loaded = {name.partition(".")[0] for name in err.split()}
    ours = {name.split(".")[1] for name in err.split() if name.startswith("isthmus.")}
    assert code == 0
    assert loaded.isdisjoint(
        {"aiokafka", "asyncio", "fastapi", "kafka", "pyarrow", "pydantic", "pyspark", "textual", "yaml"}
    )
    assert ours.isdisjoint({"cluster", "control", "lane", "ledger", "spark", "web", "wire"})


@pytest.mark.parametrize("command", ["status", "plan", "doctor"])
def test_a_look_loads_nothing_of_what_changes_things(start: Start, command: str) -> None:
    """Looks are called often: what only other verbs of the fabric need is loaded by these."""
    code, _, err = ended(start(command, "--help", prelude=LOADED))
    loaded = set(err.split())
    assert code == 0
    assert "isthmus.fabric.async_fabric" in loaded
    others = ("fabric", "operations", "links.promotion", "recovery.recovery", "takeover.execution")
    assert loaded.isdisjoint({f"isthmus.fabric.{name}" for name in others})
    assert "cryptography" not in loaded
