"""What is being done, step by step: on stderr with the time, and in the log file.

Where stderr is no terminal a step is a line like those of the log.
"""

from __future__ import annotations

import logging
import time
from typing import Self

from rich.text import Text

from isthmus.cli.logs import note, write_line
from isthmus.cli.output import console, printable


def tell_step(line: str) -> None:
    """Say that something is being done or has come about."""
    note(line)
    if console.is_terminal:
        console.print(Text(f"[{time.strftime('%X')}] {printable(line)}"))
    else:
        write_line(logging.LogRecord("isthmus", logging.INFO, "", 0, "%s", (line,), None))


class Moving:
    """Shows what is being done while it is entered: in place on a terminal, else now and then as a step."""

    def __init__(self, first: str) -> None:
        self._status = console.status(Text(printable(first))) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def _move(self, line: str, *, detail: str = "", is_step: bool) -> None:
        """Show the line, with the detail that is for the eye alone; a step is told where nothing moves, and kept."""
        if self._status is None:
            if is_step:
                tell_step(line)
            return
        self._status.update(Text(printable(line + detail)))
        if is_step:
            note(line)
