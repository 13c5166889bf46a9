"""A process that has loaded the command `isthmus`, and forks one that runs it whenever a test starts it.

The tests start the command some thousand times, and loading its modules takes most of the time of a short one. What
differs from a start by a shell: modules are loaded already, and `/proc/PID/cmdline` is that of the process below.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from isthmus.cli.output import console

_MESSAGE_BYTES_MAX: Final = 1 << 17
_NUMBER: Final = struct.Struct("!i")
_lock = threading.Lock()
_server: socket.socket | None = None


class ForkedCommand(subprocess.Popen[Any]):
    """The command `isthmus` with these arguments. Of the options of `Popen` it takes those that tests use: `stdin`,
    `stdout`, `stderr`, `text`, `env`, `cwd` and `start_new_session`.
    """

    def _execute_child(
        self, args: Sequence[str], executable: object, preexec_fn: object, close_fds: object, pass_fds: object,
        cwd: str | Path | None, env: dict[str, str] | None, startupinfo: object, creationflags: object, shell: object,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: object, gid: object, gids: object, uid: object, umask: object,
        start_new_session: bool, process_group: object,
    ) -> None:  # fmt: skip
        """Start the process, as `Popen` itself does it with `fork` and `exec`."""
        request = {
            "arguments": list(args),
            "environment": dict(os.environ if env is None else env),
            "folder": str(Path.cwd() if cwd is None else cwd),
            "is_leader": start_new_session,
        }
        self._outcome, theirs = socket.socketpair()
        given = [own if own >= 0 else standard for standard, own in enumerate((p2cread, c2pwrite, errwrite))]
        with theirs, _lock:
            socket.send_fds(_running_server(), [json.dumps(request).encode()], [theirs.fileno(), *given])
        this: Any = self
        this._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        self.pid = _received(self._outcome)
        this._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As `os.waitpid` has it: the process's id and its status, or zeros while it runs."""
        if wait_flags & os.WNOHANG:
            try:
                self._outcome.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
            except BlockingIOError:
                return 0, 0
        status = _received(self._outcome)
        self._outcome.close()
        return self.pid, status

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        this: Any = self
        with this._waitpid_lock:
            if self.returncode is None and this._child_created:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    this._handle_exitstatus(status)
        return self.returncode


def _received(outcome: socket.socket) -> int:
    (number,) = _NUMBER.unpack(outcome.recv(_NUMBER.size, socket.MSG_WAITALL))
    return int(number)


def _running_server() -> socket.socket:
    """The connection to the process that forks, which ends with it."""
    global _server
    if _server is None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "testing.runs.forking", str(theirs.fileno())]
        with theirs:
            root = Path(__file__).parents[2]
            started = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=root, start_new_session=True)
        _server = ours
        atexit.register(_end, ours, started)
    return _server


def _end(requests: socket.socket, server: subprocess.Popen[bytes]) -> None:
    requests.close()
    server.wait()


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork a process for each request. Returns in those processes alone: what they are to run."""
    # Ended children, which watch the commands, are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES_MAX, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            break
        for each in files:
            os.close(each)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    outcome, *standard = files
    pid = os.fork()
    if pid == 0:
        os.close(outcome)
        for number, each in enumerate(standard):
            os.dup2(each, number)
    for each in standard:
        os.close(each)
    if pid == 0:
        return dict(json.loads(message))
    # Nobody else may wait for the command, as it is a child of this process.
    os.write(outcome, _NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    os.write(outcome, _NUMBER.pack(status))
    os._exit(0)


def _become(request: dict[str, Any]) -> None:
    """Make this process what a shell would have started."""
    if request["is_leader"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = ["isthmus", *request["arguments"]]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = open(number, "wb", closefd=False)  # noqa: SIM115 - as above
        setattr(sys, name, io.TextIOWrapper(raw, line_buffering=number == 2 or os.isatty(number)))
    # It was made before there was a terminal.
    console.is_interactive = console.is_terminal and not console.is_dumb_terminal
    console.soft_wrap = not console.is_terminal


def _load() -> None:
    """Load every module of the command, and what it stands on."""
    for package in ("isthmus", "pyspark.sql"):
        importlib.import_module(package)
    for each in pkgutil.walk_packages(sys.modules["isthmus"].__path__, "isthmus."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)


if __name__ == "__main__":
    gc.disable()
    _load()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.freeze()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
    gc.enable()
    from isthmus.cli.entry import main

    main()
