"""The processes of Spark below this one, as the kernel knows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path


def python_workers() -> list[int]:
    """The pids of all Python workers: what the worker daemons below this process have forked."""
    # The JVM has the name of the daemon among its settings.
    daemon = "spark.daemon pyspark."
    return [child for parent, child in _descent() if _runs(parent, daemon) and _runs(child, daemon)]


def executors() -> list[int]:
    """The pids of all executors of standalone clusters that were started by this process."""
    return [child for _, child in _descent() if _runs(child, "CoarseGrainedExecutorBackend")]


def pause(pids: list[int]) -> None:
    """Let processes stand still, as a machine does that is moved or out of memory."""
    _send(pids, signal.SIGSTOP)


def resume(pids: list[int]) -> None:
    """Let processes go on that stood still."""
    _send(pids, signal.SIGCONT)


def kill(pids: list[int]) -> None:
    """End processes as the kernel ends those that take too much memory."""
    _send(pids, signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        # It may have ended since it was found.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _descent() -> list[tuple[int, int]]:
    """All processes below this one, each with its parent."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            # It ended while we looked.
            continue
        children[int(fields[1])].append(int(stat.parent.name))
    found, parents = [], [os.getpid()]
    while parents:
        parent = parents.pop()
        found += [(parent, child) for child in children[parent]]
        parents += children[parent]
    return found


def command_of(pid: int) -> str:
    """The words of a process's command, "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _runs(pid: int, program: str) -> bool:
    return program in command_of(pid)
