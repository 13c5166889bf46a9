"""Child processes: distinguished from other processes, signalled, and never left behind by accident."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import HostError, PortBusy

State = Literal["running", "paused", "stopped"]

_POLL_S: Final = 0.01
_ASK_S: Final = 0.05
READY_TERM_S: Final = 300.0
"""The time that a server has to be ready: a busy machine may start many at once."""
_END_TERM_S: Final = 10.0
# Reads one line from its owner and leaves the group alone; without one its owner has died, and the
# group dies too.
_GUARD: Final = "read -r released && exit 0; kill -KILL 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, known by its id and start time together, since ids are used again."""

    pid: int
    started_ticks: int

    @classmethod
    def with_pid(cls, pid: int) -> Process | None:
        """Return the process that has this id now, if any."""
        found = stat_of(pid)
        return None if found is None else cls(pid=pid, started_ticks=found.started_ticks)

    @property
    def state(self) -> State:
        found = stat_of(self.pid)
        if found is None or found.started_ticks != self.started_ticks:
            return "stopped"
        if found.has_ended:
            with contextlib.suppress(ChildProcessError):  # it is another process's child
                os.waitpid(self.pid, os.WNOHANG)
            return "stopped"
        return "paused" if found.letter in "Tt" else "running"

    def send(self, number: signal.Signals) -> None:
        """Signal the process if it is still the same one; do nothing otherwise."""
        if self.state != "stopped":
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait_stopped(self, term_s: float) -> bool:
        """Return whether the process ended within `term_s`."""
        return self._reaches({"stopped"}, term_s)

    def wait_paused(self, term_s: float) -> bool:
        """Return whether the process stood still, or ended, within `term_s`."""
        return self._reaches({"paused", "stopped"}, term_s)

    def wait_until(self, condition: Callable[[], bool], term_s: float) -> bool:
        """Return whether `condition`, checked every 50 ms, came true in `term_s` while the process lived."""
        deadline = Deadline(term_s)
        while self.state != "stopped" and not deadline.has_passed:
            if condition():
                return True
            time.sleep(_ASK_S)
        return False

    def _reaches(self, states: Collection[State], term_s: float) -> bool:
        deadline = Deadline(term_s)
        while self.state not in states:
            if deadline.has_passed:
                return False
            time.sleep(_POLL_S)
        return True


class ProcessGuard:
    """A process group that dies with this process, however that ends, until it is released.

    A shell leads the group and waits on a pipe from us: when we end, even by SIGKILL, the pipe
    closes and the shell kills the group. So an interrupted start leaves nothing running, at
    whatever moment it was interrupted.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self._children: list[Process] = []
        self._end = weakref.finalize(self, _end, self._shell)

    def spawn(self, command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Process:
        """Start `command` in the group, its output in `log`; what was there is kept beside it.

        :raises HostError: It could not be started.
        """
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.with_name(f"{log.name}.previous"))
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            # A pipe handed down to us by a shell or by make would not end while a broker holds it.
            *((os.POSIX_SPAWN_CLOSE, fd) for fd in _find_inheritable_fds()),
        ]
        try:
            pid = os.posix_spawn(
                command[0],
                list(command),
                dict(environment),
                file_actions=files,
                setpgroup=self._shell.pid,
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            raise HostError(
                f"{command[0]} could not be started: {error.strerror}",
                hint="Check that the program may be executed and that the machine has memory left.",
            ) from error
        process = Process.with_pid(pid)
        if process is None:
            raise HostError(f"{command[0]} ended at once", hint=f"Its output is in {log}.")
        self._children.append(process)
        return process

    def release(self) -> None:
        """Let the group outlive this process."""
        self._end.detach()
        if self._shell.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.write(b"released\n")
                self._shell.stdin.close()
        self._shell.wait()

    def end(self) -> None:
        """Kill the group; returns when all of it has ended."""
        self._end()
        for child in self._children:
            child.wait_stopped(_END_TERM_S)


def start_failure(who: str, process: Process | None, log: Path, term_s: float) -> HostError:
    """Return the error for a JVM that did not get ready in `term_s`, with the last complaint in its log."""
    complaint = _last_complaint(log)
    if process is not None and process.state != "stopped":
        return HostError(
            f"{who} was not ready after {term_s:.0f} s{complaint}",
            hint=f"Its log is {log}. On a busy machine start fewer brokers.",
        )
    if "Address already in use" in complaint:
        return PortBusy(f"{who} could not listen{complaint}", hint="Try again, or choose other ports with --base-port.")
    return HostError(f"{who} ended while it started{complaint}", hint=f"Its log is {log}.")


def _last_complaint(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    complaints = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return f": {complaints[-1].strip()}" if complaints else ""


def _end(shell: subprocess.Popen[bytes]) -> None:
    if shell.stdin is not None:
        shell.stdin.close()
    shell.wait()


def _find_inheritable_fds() -> list[int]:
    return [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and _inheritable(fd)]


def _inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the descriptor that listed the folder, closed since
        return False


class ProcessStat(NamedTuple):
    """The state of a process: its letter, threads and start time (clock ticks since boot)."""

    letter: str
    threads: int
    started_ticks: int

    @property
    def has_ended(self) -> bool:
        """Whether it has ended: a zombie has once its last thread did, as it holds no ports or files then."""
        return self.letter in "ZX" and self.threads <= 1


def stat_of(pid: int) -> ProcessStat | None:
    """Read `/proc/PID/stat` of a process, `None` if there is none."""
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and may itself hold blanks and
    # parentheses.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(fields[0], int(fields[17]), int(fields[19]))
