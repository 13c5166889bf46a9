"""This process and its host, and whether another process of the host is still there, as Linux tells it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from isthmus.local.process import stat_of
from isthmus.model.whereabouts import UNKNOWN, Liveness, Whereabouts, liveness


def whereabouts() -> Whereabouts:
    """Which process this is, and on which host."""
    start = start_of(os.getpid())
    return Whereabouts(
        host=socket.gethostname(),
        host_id=_host_id(),
        pid=os.getpid(),
        process_start=UNKNOWN if start is None else start,
    )


def liveness_of(process: Whereabouts) -> Liveness:
    """Whether a process still runs, as far as this one can know."""
    return liveness(process, whereabouts(), start_of(process.pid))


def goes_by_our_clock(process: Whereabouts) -> bool:
    """Whether a process runs on this host; of another host's, only what is heard tells whether it lives."""
    return bool(process.host_id) and process.host_id == whereabouts().host_id


def start_of(pid: int) -> int | None:
    """When the process of this pid began, in clock ticks after the boot.

    `None` where there is no such process (any more), `UNKNOWN` where that cannot be told.
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


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _host_id() -> str:
    """The boot, the pid namespace and the name of the host; "" where that cannot be read.

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
