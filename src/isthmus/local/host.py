"""This process and its host, and whether another process of the host still exists, as Linux reports it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from isthmus.local.process import stat_of
from isthmus.model.process.whereabouts import UNKNOWN, Liveness, Whereabouts, liveness

_EXECUTOR_ID: Final = "--executor-id"
_DRIVER: Final = "org.apache.spark.deploy.SparkSubmit"


def whereabouts() -> Whereabouts:
    """Return the identity of this process and its host."""
    start = start_of(os.getpid())
    return Whereabouts(
        host=socket.gethostname(),
        host_id=_host_id(),
        pid=os.getpid(),
        process_start=UNKNOWN if start is None else start,
    )


def liveness_of(process: Whereabouts) -> Liveness:
    """Return whether a process still runs, as far as this one can know."""
    return liveness(process, whereabouts(), start_of(process.pid))


def goes_by_our_clock(process: Whereabouts) -> bool:
    """Return whether a process runs on this host; for another host's, only its reports show whether it lives."""
    return bool(process.host_id) and process.host_id == whereabouts().host_id


def start_of(pid: int) -> int | None:
    """Return the start time of the process of this pid, in clock ticks after the boot.

    `None` if there is no such process (any more), `UNKNOWN` if it cannot be read.
    """
    if pid <= 0:
        return UNKNOWN
    try:
        found = stat_of(pid)
    except (OSError, ValueError):
        return UNKNOWN
    if found is None:
        # /proc may be hiding it, as `hidepid` does with other users' processes.
        return UNKNOWN if _exists(pid) else None
    return None if found.has_ended else found.started_ticks


def executor_id() -> str:
    """Return Spark's name of the executor that this Python worker belongs to, "driver" on an embedded Spark; "" if that
    cannot be read. Spark tells it to its JVM alone, which is the parent of the daemon that has forked this process.
    """
    try:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        words = Path(f"/proc/{daemon}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, IndexError):
        return ""
    if _EXECUTOR_ID in words[:-1]:
        return words[words.index(_EXECUTOR_ID) + 1]
    return "driver" if _DRIVER in words else ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _host_id() -> str:
    """Return the boot, the pid namespace and the name of the host; "" if that cannot be read.

    Containers share the boot and may share the name: a pid means the same to two processes only in one namespace.
    """
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            # It shows another namespace than the one we are in.
            return ""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {socket.gethostname()}" if boot else ""
    except OSError:
        return ""
