"""stdout and stderr of the command: what cannot be written is an error of results, and left out of messages."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final, NoReturn

from isthmus.errors import OutputFailed

_STDOUT: Final = 1


class ReaderLeft(Exception):
    """Whoever read stdout has left, `head` for example: nobody is there to be told."""


class Results(io.TextIOWrapper):
    """stdout. Its failures are told from those of sockets and files, whoever writes.

    :raises OutputFailed: It cannot be written to.
    :raises ReaderLeft: It is a pipe that nobody reads.
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
    """stderr. A log on a full disk must not end a run, so what cannot be told is left out."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def guard_streams() -> None:
    """From now on stdout and stderr are `Results` and `Messages`; results nobody wants (`>&-`) go nowhere."""
    out = sys.stdout if isinstance(sys.stdout, io.TextIOWrapper) else open(os.devnull, "w")  # noqa: SIM115
    encoding, errors, is_line_wise = out.encoding, out.errors, out.line_buffering
    sys.stdout = Results(out.detach(), encoding=encoding, errors=errors, line_buffering=is_line_wise)
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = Messages(sys.stderr.detach(), encoding=encoding, errors=errors, line_buffering=True)


def discard_results() -> None:
    """What is still to be written to stdout goes nowhere: it must not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _fail(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise ReaderLeft from error
    raise OutputFailed(
        f"cannot write the output: {error.strerror or error}",
        hint="Make room there, or send the output elsewhere.",
    ) from error
