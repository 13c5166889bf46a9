"""The end of a command: each error becomes one message on stderr and an exit code."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import typer
from rich.text import Text

from isthmus.cli.logs import note
from isthmus.cli.options import is_verbose
from isthmus.cli.output import console, printable
from isthmus.cli.streams import ReaderLeft, discard_results, guard_streams
from isthmus.errors import InvariantError, IsthmusError, OutputFailed
from isthmus.model.problem import Problem

Handler = Callable[[int, FrameType | None], object]


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Handlers of Ctrl-C handle this too, and only the exit code differs."""


def end_at_signals() -> None:
    """From now on let Ctrl-C and SIGTERM end the process at once, with the exit code of the signal.

    This is in force until a command begins and after it has ended: nothing needs an orderly end then.
    """
    _handle(_end, _end)


@contextlib.contextmanager
def check_stdout() -> Iterator[None]:
    """Run the code that writes results, help included, and check that they arrive at stdout.

    :raises SystemExit: They did not, with the exit code for that.
    """
    guard_streams()
    try:
        try:
            yield
        finally:
            # Buffered results meet a full disk or a closed pipe here, before the interpreter ends.
            sys.stdout.flush()
    except OutputFailed as error:
        discard_results()
        _tell(error.error_code, str(error), error.hint)
        raise SystemExit(error.exit_code) from error
    except ReaderLeft as error:
        discard_results()
        raise SystemExit(128 + signal.SIGPIPE) from error


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Run a command; report every error in one message.

    Ctrl-C and SIGTERM interrupt the command, which decides itself how to react.

    :raises typer.Exit: With the exit code of what happened.
    """
    _handle(signal.default_int_handler, _terminate)
    logging.getLogger().addFilter(_is_worth_telling)
    try:
        yield
    except (typer.Exit, typer.Abort, typer.TyperException, OutputFailed, ReaderLeft):
        # A command's own exit code, usage errors (typer reports them with the usage line), and those of `check_stdout`.
        raise
    except IsthmusError as error:
        _tell(error.error_code, str(error), error.hint)
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as interrupt:
        console.print("stopped")
        signalled = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
        raise typer.Exit(128 + signalled) from interrupt
    except Exception as error:
        if is_verbose():
            console.print_exception()
        _tell(
            InvariantError.error_code,
            f"{type(error).__name__}: {error}",
            "This is a bug in Isthmus: please report it with the output of the command with -v, or the log file.",
            bug=error,
        )
        raise typer.Exit(InvariantError.exit_code) from error
    finally:
        end_at_signals()


def _is_worth_telling(record: logging.LogRecord) -> bool:
    # py4j logs a call that was interrupted or whose JVM has gone with its traceback, on the root logger, and raises the
    # error as well.
    return record.msg not in ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def _handle(interrupted: Handler, terminated: Handler) -> None:
    # A shell makes its background processes ignore Ctrl-C, for good.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)


def _end(number: int, _: FrameType | None) -> NoReturn:
    os.write(2, b"stopped\n")
    os._exit(128 + number)


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    raise Terminated


def _tell(code: str, message: str, hint: str, *, bug: Exception | None = None) -> None:
    note(f"{code}: {Problem(message, hint).in_full}", level=logging.ERROR, error=bug)
    # As plain text: brackets in a message are no markup, and it may contain text from a broker.
    text = f"Error {code}: {message}"
    console.print(Text("\n".join(printable(line) for line in text.splitlines()), style="red"))
    if hint:
        lines = [printable(line) for line in hint.rstrip().splitlines()]
        console.print(Text("\n".join([f"Suggestion: {lines[0]}", *lines[1:]])))
