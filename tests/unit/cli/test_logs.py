"""What is logged: how much of it is shown, and what is kept."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.cli.logs import JsonLines, Lines, Repetition, SharedFile
from isthmus.config.reading.places import SMALLEST
from isthmus.kafka import trace
from testing.patience import TERM_S

SOURCE = Path(__file__).parents[3] / "src"


def record(message: str, *arguments: object) -> logging.LogRecord:
    """Something that is logged."""
    return logging.LogRecord("isthmus.x", logging.WARNING, "", 0, message, arguments, None)


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of its own, with a log file."""
    (folder / "isthmus.yaml").write_text(SMALLEST.replace("9192", "1").replace("9292", "2"))
    return subprocess.run(
        [sys.executable, "-c", "from isthmus.cli.app import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=TERM_S,
        check=False,
    )


def test_what_is_logged_again_is_counted() -> None:
    """Within a minute it is shown once; the next one says how often it was."""
    repeated, passing = Repetition(quiet_s=1000.0), Repetition(quiet_s=0.0)

    assert [repeated.filter(record("%s is away", name)) for name in ("a", "b", "a", "a")] == [True, True, False, False]
    assert passing.filter(record("x"))
    assert passing.filter(record("x"))
    for text in ("x", "x"):
        repeated.filter(record(text))
    last = record("x")
    repeated._quiet_s = 0.0
    assert repeated.filter(last)
    assert "and 1 times more" in last.getMessage()


def test_what_people_see_moves_no_cursor() -> None:
    """A warning that tells a group's name is one line with all that can be shown of it; a traceback keeps its lines."""
    assert Lines().format(record("it matches %s", "g\nroot: all is well\x1b[2J\u202e[bold]имя[/bold]\r")) == (
        "isthmus.x: it matches g root: all is well[2J[bold]имя[/bold]"
    )
    try:
        raise ValueError("\x1b[2Ja\nb")
    except ValueError:
        found = logging.LogRecord("isthmus.x", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    first, *_, last, rest = Lines().format(found).splitlines()
    assert (first, last, rest) == ("isthmus.x: failed", "ValueError: [2Ja", "b")


def test_what_is_written_to_a_file_is_one_line(tmp_path: Path) -> None:
    """With its date: a long message, one with line breaks, a change, a step, and a traceback."""
    code = (
        "import logging; from isthmus.cli import logs, steps; logs.begin(); logs.show_changes()\n"
        "log = logging.getLogger('isthmus.x')\n"
        "log.warning('%s', 'long ' * 100); log.warning('two\\nlines'); logging.getLogger('isthmus.audit').info('{}')\n"
        "steps.tell_step('a step')\n"
        "try: raise ValueError('bad')\n"
        "except ValueError: log.exception('failed')"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=TERM_S, check=True
    )
    lines = ended.stderr.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ isthmus", line) for line in lines), lines
    assert [line.partition("Z ")[2][:30] for line in lines] == [
        "WARNING isthmus.x: long long l",
        "WARNING isthmus.x: two lines",
        "INFO isthmus.audit: {}",
        "INFO isthmus: a step",
        "ERROR isthmus.x: failed | Trac",
    ]


def test_a_line_is_an_object() -> None:
    """Whatever a message holds, errors with their traceback."""
    try:
        raise ValueError("a\nb")
    except ValueError:
        found = logging.LogRecord("isthmus.x", logging.ERROR, "", 0, "é %s", ("\n",), sys.exc_info())

    line = JsonLines().format(found)

    told = json.loads(line)
    assert "\n" not in line
    assert (told["level"], told["logger"], told["message"]) == ("error", "isthmus.x", "é \n")
    assert "ValueError: a\nb" in told["error"]
    assert told["time"].endswith("Z")


def test_a_file_holds_more_than_is_shown(tmp_path: Path) -> None:
    """By the option or by the configuration; what people see stays as it is."""
    quiet = run(tmp_path, "--log-file", "by/option.jsonl", "status")
    run(tmp_path, "status", ISTHMUS_LOG__FILE="configured.jsonl")
    loud = run(tmp_path, "-vv", "status")

    for name in ("by/option.jsonl", "configured.jsonl"):
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert any(line["level"] == "debug" for line in lines), quiet.stderr
    assert "isthmus.kafka" not in quiet.stderr
    assert "isthmus.kafka" in loud.stderr


def test_what_ends_a_command_is_kept(tmp_path: Path) -> None:
    """With its code and what to do."""
    run(tmp_path, "--log-file", "log.jsonl", "pause", "nowhere")

    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (line["level"], line["logger"]) == ("error", "isthmus")
    assert line["message"] == (
        "ISTH-CONFIG: there is no link named nowhere. Configured are east-west. The declarations on east, west are "
        "not known, as it does not answer."
    )


def test_steps_are_kept_and_have_their_time(tmp_path: Path) -> None:
    """Whatever shows that something goes on does so by one function; where it moves in place its steps are kept too."""
    code = (
        "from isthmus.cli import logs, steps; from isthmus.model.process.logsettings import LogSettings\n"
        "import sys; from isthmus.cli.output import console; console._force_terminal = 'moving' in sys.argv\n"
        "logs.log_into(LogSettings(file=sys.argv[1]))\n"
        "with steps.Moving('looking') as moving:\n"
        "    moving._move('one', detail=', 5 records', is_step=True); moving._move('two', is_step=False)\n"
        "    steps.tell_step('three')"
    )

    def told(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", code, str(tmp_path / arguments[0]), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TERM_S)
        is_moving = "moving" in arguments
        begin = r"^(\r|\x1b\S*)*\[\d\d:\d\d:\d\d]" if is_moving else r"^[\d-]{10}T[\d:.]{12}Z INFO isthmus:"
        assert re.search(rf"{begin} three$", done.stderr, re.M), done.stderr
        assert ("isthmus: one" in done.stderr) == (not is_moving)
        lines = map(json.loads, (tmp_path / arguments[0]).read_text().splitlines())
        return [str(line["message"]) for line in lines]

    assert told("still") == ["one", "three"]
    assert told("moving") == ["one", "three"]


def test_a_full_file_is_moved_aside_once(tmp_path: Path) -> None:
    """Two that write the same file, as processes do, lose no line of each other's: each goes on in the one that is
    there, and the one that comes late does not move that aside again.
    """
    one, other = (SharedFile(tmp_path / "log.jsonl", maxBytes=1000, backupCount=100) for _ in range(2))
    for number in range(200):
        for name, handler in (("one", one), ("other", other)):
            handler.emit(record("%s %03d of what is written", name, number))
    # Both found the file full, and one was faster.
    one.doRollover()
    other.doRollover()
    one.close()
    other.close()

    files = [each for each in tmp_path.iterdir() if each.suffix != ".lock"]
    lines = [line for each in files for line in each.read_text().splitlines()]
    assert sorted(lines) == sorted(
        f"{name} {n:03d} of what is written" for name in ("one", "other") for n in range(200)
    )
    sizes = sorted(each.stat().st_size for each in files if each.suffix != ".jsonl")
    # All are full, but for the last, and none is larger than allowed.
    assert all(900 < size <= 1000 for size in sizes[1:]), sizes


def test_a_folder_that_goes_ends_no_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines are lost as long as there is no folder, whoever logs goes on, and the file goes on with the folder."""
    folder = tmp_path / "logs"
    folder.mkdir()
    handler = SharedFile(folder / "log.jsonl", maxBytes=1000, backupCount=1)
    folder.rename(tmp_path / "gone")
    for number in range(2):
        handler.emit(record("lost %d", number))
    assert "FileNotFoundError" in capsys.readouterr().err
    folder.mkdir()
    handler.emit(record("kept"))
    handler.close()

    assert (folder / "log.jsonl").read_text() == "kept\n"


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Before anything is done."""
    (tmp_path / "file").touch()

    refused = run(tmp_path, "--log-file", "file/log.jsonl", "status")

    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr


def test_answers_are_shown_in_full_only_when_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """They may hold secrets: -vv shows what was asked and how long it took, never what."""

    class Question:
        name = "Metadata"

        def __repr__(self) -> str:
            return "s3cret"

    def asked() -> str:
        caplog.clear()
        assert (
            trace.trace_answers(lambda payload, _: "s3cret", "east", Question(), 3)(memoryview(b"abc"), 1) == "s3cret"
        )
        return caplog.text

    caplog.set_level(logging.WARNING, "isthmus")
    assert asked() == ""
    caplog.set_level(logging.DEBUG, "isthmus")
    assert "Metadata v3" in asked()
    assert "s3cret" not in asked()
    try:
        trace.trace_unsafely()
        assert "s3cret" in asked()
    finally:
        trace._log.setLevel(logging.NOTSET)
        trace._unsafe_log.setLevel(logging.WARNING)


def test_each_change_is_shown_however_often_it_is_made() -> None:
    """Where a server is beside a run, which is not to tell all that it does; of what else is told nothing is."""
    code = (
        "import logging; from isthmus.cli import logs; logs.begin(); logs.show_changes()\n"
        "for _ in range(2): logging.getLogger('isthmus.audit').info('alice pauses')\n"
        "logging.getLogger('isthmus.web').info('something else')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TERM_S)

    assert done.stderr.count("alice pauses") == 2
    assert "something else" not in done.stderr


def test_bytes_that_are_no_text_lose_no_line(tmp_path: Path) -> None:
    """A name in the arguments of a command may hold them."""
    code = (
        "import logging; from isthmus.cli import logs; from isthmus.model.process.logsettings import LogSettings\n"
        "logs.log_into(LogSettings(file='log.jsonl')); logging.getLogger('isthmus.x').warning('no \\udcff link')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TERM_S, cwd=tmp_path
    )

    assert done.stderr == ""
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["message"] == "no \udcff link"
