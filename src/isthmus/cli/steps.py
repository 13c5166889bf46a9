"""The steps of a command: on stderr with the time, and in the log file.

If stderr is no terminal a step is a line like those of the log.
"""

from __future__ import annotations

import logging
import time
from typing import Self

from rich.text import Text

from isthmus.cli.logs import note, write_line
from isthmus.cli.output import console, printable


def tell_step(line: str) -> None:
    """Report that a step begins, or has been reached."""
    note(line)
    if console.is_terminal:
        console.print(Text(f"[{time.strftime('%X')}] {printable(line)}"))
    else:
        write_line(logging.LogRecord("isthmus", logging.INFO, "", 0, "%s", (line,), None))


class Moving:
    """Show the current step while it is entered: in place on a terminal, otherwise now and then as a step."""

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
        """Show the line, with the detail for the screen only; without a moving display, print each step and log it."""
        if self._status is None:
            if is_step:
                tell_step(line)
            return
        self._status.update(Text(printable(line + detail)))
        if is_step:
            note(line)
