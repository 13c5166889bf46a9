"""A gateway that the command `isthmus gateway serve` runs."""

from __future__ import annotations

import subprocess


def served_by(running: subprocess.Popen[str] | subprocess.Popen[bytes]) -> set[int]:
    """The processes that serve for it."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(running.pid)], capture_output=True, check=True)
    return {int(pid) for pid in listed.stdout.split()}
