"""The log of commands: warnings on stderr, more of it by -v and -vv, and all of it in a file of JSON lines.

On a terminal it is for people to read; if stderr is none, each message is one line, which begins with date and time. A
repeated message is shown once, and after a minute with the number of repeats: the file has every one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from rich.logging import RichHandler

from isthmus.cli.output import console, printable
from isthmus.config.reading.locked import exclusive
from isthmus.errors import HostError
from isthmus.model.process.logsettings import LogSettings

_PACKAGE: Final = logging.getLogger("isthmus")
_AUDIT: Final = logging.getLogger("isthmus.audit")
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)
_QUIET_S: Final = 60.0
_REMEMBERED_MAX: Final = 1000
_FILE_ONLY: Final = "is_for_file_only"
_shown_from = logging.WARNING
_file: SharedFile | None = None


class Repetition(logging.Filter):
    """Suppress messages that were logged within the last minute; the next one after it has the number of repeats."""

    def __init__(self, quiet_s: float = _QUIET_S) -> None:
        super().__init__()
        self._quiet_s = quiet_s
        self._shown: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show it; each change is shown, however often it is made."""
        if record.name == _AUDIT.name:
            return True
        key, now = (record.name, record.getMessage()), time.monotonic()
        shown_at, count = self._shown.get(key, (-self._quiet_s, 0))
        if now - shown_at < self._quiet_s:
            self._shown[key] = shown_at, count + 1
            return False
        if len(self._shown) >= _REMEMBERED_MAX:
            self._shown.pop(next(iter(self._shown)))
        self._shown.pop(key, None)
        self._shown[key] = now, 0
        if count:
            record.msg, record.args = f"{key[1]} (and {count} times more within {now - shown_at:.0f} s)", None
        return True


class Lines(logging.Formatter):
    """Format for people: no character moves the cursor, and a name with line breaks begins no line of its own."""

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line."""
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, and the lines of a traceback."""
        return "\n".join(map(printable, super().format(record).splitlines()))


class SingleLines(logging.Formatter):
    """Format for journals and files: time (RFC 3339, UTC), level, logger and message on one line, as is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line."""
        message = record.getMessage()
        if record.exc_info:
            message += " | " + " | ".join(self.formatException(record.exc_info).splitlines())
        return f"{_time(record)} {record.levelname} {record.name}: {printable(message)}"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ToStderr(RichHandler):
    """Show log messages on stderr, in the form for its reader."""

    def __init__(self) -> None:
        super().__init__(console=console, show_path=False, log_time_format="[%X]")
        self.setFormatter(Lines())

    def emit(self, record: logging.LogRecord) -> None:
        """Show one message."""
        if self.console.is_terminal:
            super().emit(record)
        else:
            write_line(record)


def write_line(record: logging.LogRecord) -> None:
    """Write a log message on stderr, whole and at once."""
    with contextlib.suppress(OSError, ValueError):
        console.file.write(_SINGLE.format(record) + "\n")
        console.file.flush()


class JsonLines(logging.Formatter):
    """Format as one object a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and
    `error` if there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format the line."""
        found = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


_SINGLE: Final = SingleLines()


class SharedFile(RotatingFileHandler):
    """The log file of several processes, which append whole lines.

    One of them renames it when it is full, under a lock beside it, and the others continue in the new one.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line into the file that has the name now."""
        try:
            self._follow()
        except OSError:
            self.handleError(record)
        else:
            super().emit(record)

    def doRollover(self) -> None:
        """Rename the file, unless another process just has."""
        with exclusive(Path(f"{self.baseFilename}.lock")):
            if not self._follow():
                super().doRollover()

    def _follow(self) -> bool:
        """Return whether another file has the name now; it is opened in place of the former one."""
        if self.stream is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.stream.fileno()), os.stat(self.baseFilename)):
                    return False
        # Opened first: if that fails the line is lost, and the next one tries again.
        before, self.stream = self.stream, self._open()
        if before is not None:
            before.close()
        return True


def begin() -> None:
    """Log warnings on stderr, of Isthmus and of the libraries it uses."""
    to_people = ToStderr()
    to_people.addFilter(_is_shown)
    to_people.addFilter(Repetition())
    logging.basicConfig(level=logging.WARNING, handlers=[to_people])


def _is_shown(record: logging.LogRecord) -> bool:
    is_told = record.levelno >= _shown_from or record.name == _AUDIT.name
    return is_told and not getattr(record, _FILE_ONLY, False)


def be_verbose(times: int) -> None:
    """Show progress (1), and every request to a broker (2)."""
    global _shown_from
    _shown_from = _LEVELS[min(times, len(_LEVELS) - 1)]
    _PACKAGE.setLevel(min(_shown_from, _PACKAGE.getEffectiveLevel()))


def show_changes() -> None:
    """Show each change that is made through a server, and its author, at any level."""
    _AUDIT.setLevel(logging.INFO)


def log_into(settings: LogSettings) -> None:
    """Log everything to a file as well, which is replaced by a new one when it is full. Once in a process.

    :raises HostError: The file cannot be written.
    """
    global _file
    if settings.file is None or _file is not None:
        return
    try:
        Path(settings.file).parent.mkdir(parents=True, exist_ok=True)
        _file = SharedFile(
            settings.file,
            maxBytes=settings.size_bytes,
            backupCount=settings.keep,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise HostError(
            f"the log {settings.file} cannot be written: {error.strerror}",
            hint="Name another file (log.file), or let the user who runs Isthmus write there.",
        ) from None
    _file.setFormatter(JsonLines())
    logging.getLogger().addHandler(_file)
    _PACKAGE.setLevel(logging.DEBUG)


def note(message: str, *, level: int = logging.INFO, error: Exception | None = None) -> None:
    """Write to the file a message that is shown to people in another way, with the traceback of an unforeseen error."""
    if _file is not None:
        _PACKAGE.log(level, "%s", printable(message), exc_info=error, extra={_FILE_ONLY: True})
