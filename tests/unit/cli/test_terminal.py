"""What is printed on a terminal, in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

SCRIPT = """
import sys
from isthmus.cli.tables.columns import Cells, Column
from isthmus.cli.output import OutputFormat, render
row = {"topic": "flights", "state": "SOURCE_UNAVAILABLE", "lag_records": 59800, "problem": "no leader " * 9, "pid": 7}
columns = (
    Column("topic", Cells.NAME),
    Column("state"),
    Column("lag_records", Cells.NUMBER),
    Column("problem", Cells.PROSE, gives_way=1),
)
render([row], OutputFormat(sys.argv[1]), columns=columns)
"""


def shown(output: str, columns: int, terminal: str = "xterm") -> tuple[list[str], str]:
    """The lines on a terminal so many columns wide, and what went to stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, output],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**environment, "TERM": terminal},
            check=True,
        )
        # All of it waits in the terminal's buffer, which is larger than the table.
        text = os.read(ours, 65536).decode()
        return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines(), done.stderr.decode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_a_table_fits_the_terminal(columns: int) -> None:
    """State and lag are whole; where the problem has no room, stderr says so and what shows it."""
    lines, told = shown("table", columns)
    text = "\n".join(lines)

    assert max(map(len, lines)) <= columns
    assert "SOURCE_UNAVAILABLE" in text
    assert "59,800" in text
    assert "pid" not in text
    if columns == 60:
        assert told == "left out to fit the screen: problem; -o wide shows all\n"
    else:
        assert told == ""
        assert text.count("leader") == 9


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_a_wide_table_is_as_wide_as_it_has_to_be(terminal: str) -> None:
    """Whoever asks for all columns gets them, a line for each row."""
    lines, told = shown("wide", 60, terminal)

    assert told == ""
    (line,) = [line for line in lines if "flights" in line]
    assert line.split()[:3] == ["flights", "SOURCE_UNAVAILABLE", "59,800"]
    assert line.count("leader") == 9
    assert line.split()[-1] == "7"
