"""stdout and stderr of the command: a failed write is an error for results, and ignored for messages."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final, NoReturn

from isthmus.errors import OutputFailed

_STDOUT: Final = 1


class ReaderLeft(Exception):
    """The reader of stdout has left, `head` for example: no message is needed."""


class Results(io.TextIOWrapper):
    """stdout. Its failures differ in type from those of sockets and files, whichever code writes.

    :raises OutputFailed: It cannot be written to.
    :raises ReaderLeft: It is a pipe without a reader.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            _fail(error)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            _fail(error)


class Messages(io.TextIOWrapper):
    """stderr. A log on a full disk must not end a run, so a message that cannot be written is dropped."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def guard_streams() -> None:
    """Replace stdout and stderr by `Results` and `Messages`; results to a closed stdout (`>&-`) are dropped."""
    out = sys.stdout if isinstance(sys.stdout, io.TextIOWrapper) else open(os.devnull, "w")  # noqa: SIM115
    encoding, errors, is_line_wise = out.encoding, out.errors, out.line_buffering
    sys.stdout = Results(out.detach(), encoding=encoding, errors=errors, line_buffering=is_line_wise)
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = Messages(sys.stderr.detach(), encoding=encoding, errors=errors, line_buffering=True)


def discard_results() -> None:
    """Drop the buffered output for stdout: it must not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _fail(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise ReaderLeft from error
    raise OutputFailed(
        f"cannot write the output: {error.strerror or error}",
        hint="Make room there, or send the output elsewhere.",
    ) from error
