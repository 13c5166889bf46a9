"""What a tree of processes has used, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in _listed(Path("/proc", str(pid), "task")):
        for child in _read(task / "children").split():
            yield from tree(int(child))


def cpu_s(pid: int) -> float:
    """CPU seconds of a tree since it began, those of its members that have ended and been waited for included."""
    ticks = 0
    for member in tree(pid):
        fields = _read(Path("/proc", str(member), "stat")).rpartition(")")[2].split()
        # Fields 14 to 17 of proc(5): user and system time, of the process and of its ended children.
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S


def python_worker_peak_mb(pid: int) -> float:
    """The largest resident size, in MiB, that any Python process of the tree has had."""
    return max((_peak_kb(member) for member in tree(pid) if _is_python(member)), default=0) / 1024


def _is_python(pid: int) -> bool:
    return b"python" in _read_bytes(Path("/proc", str(pid), "cmdline")).split(b"\0")[0]


def _peak_kb(pid: int) -> int:
    lines = _read(Path("/proc", str(pid), "status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # ended meanwhile
        return []


def _read(file: Path) -> str:
    return _read_bytes(file).decode(errors="replace")


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # ended meanwhile
        return b""
