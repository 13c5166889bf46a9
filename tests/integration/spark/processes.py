"""The Python workers of this process's Spark, as the kernel knows them."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path


def python_workers() -> list[int]:
    """The pids of all Python workers below this process: what the worker daemons of its JVM have forked."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            # It ended while we looked.
            continue
        children[int(fields[1])].append(int(stat.parent.name))
    below, found = list(children[os.getpid()]), []
    while below:
        pid = below.pop()
        found += [child for child in children[pid] if _is_daemon(pid) and _is_daemon(child)]
        below += children[pid]
    return found


def kill(pids: list[int]) -> None:
    """End processes as the kernel ends those that take too much memory."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _is_daemon(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
